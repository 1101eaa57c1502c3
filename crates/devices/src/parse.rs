// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of the file. Every error names its line and what is allowed there.

use crate::device::{Atomics, DEVICES_MAX, Device, LIMITS_MAX, Limits, Model, Rate};
use bellwire_faults::FaultPlan;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A line, counted from 1, and a sentence.
type Wrong = (usize, String);

const KEYS: &str = "name, imitate, address, faults, rate, mtu, atomics, gids, numa_node, limits";

/// The place of an error as the parser has it.
type At = (Range<usize>, String);

/// The devices that a text describes.
///
/// # Errors
/// The first line that is wrong, and why.
pub fn parse(text: &str) -> Result<Vec<Device>, Wrong> {
    let line = |at: usize| text.as_bytes().iter().take(at).filter(|b| **b == b'\n').count() + 1;
    let table = DeTable::parse(text).map_err(|e| (line(e.span().map_or(0, |s| s.start)), e.message().trim().replace('\n', ", ")))?;
    devices(table.get_ref()).map_err(|(at, what)| (line(at.start), what))
}

fn devices(table: &DeTable<'_>) -> Result<Vec<Device>, At> {
    let mut devices: Vec<Device> = Vec::new();
    for (key, value) in table {
        if key.get_ref() != "device" {
            return Err((key.span(), format!("\"{}\" is not known here; allowed are tables [[device]] only", key.get_ref())));
        }
        let DeValue::Array(list) = value.get_ref() else { return Err((value.span(), "a device is a table [[device]], with two brackets".to_owned())) };
        for entry in list {
            let DeValue::Table(table) = entry.get_ref() else { return Err((entry.span(), "a device is a table [[device]]".to_owned())) };
            if devices.len() == DEVICES_MAX {
                return Err((entry.span(), format!("there may be {DEVICES_MAX} devices at most")));
            }
            let device = device(devices.len(), table)?;
            if devices.iter().any(|d| d.name == device.name) {
                return Err((entry.span(), format!("there are two devices of the name {}", device.name)));
            }
            devices.push(device);
        }
    }
    Ok(if devices.is_empty() { vec![Device::new(0)] } else { devices })
}

fn device(number: usize, table: &DeTable<'_>) -> Result<Device, At> {
    // The model first: other keys change what it gives.
    let model = match table.iter().find(|(key, _)| key.get_ref() == "imitate") {
        Some((_, value)) => word(value, &Model::NAMES, Model::named)?,
        None => Model::Bellwire,
    };
    let mut device = Device::like(number, model);
    for (key, value) in table {
        match &**key.get_ref() {
            "imitate" => {}
            "name" => device.name = name(value)?,
            "address" => device.address = Some(text(value, "an IP address, the name of an interface, or auto")?.to_owned()),
            "faults" => {
                let plan = text(value, "a plan as in BELLWIRE_FAULTS")?;
                device.faults = Some(plan.parse::<FaultPlan>().map_err(|e| (value.span(), format!("faults: {e}")))?);
            }
            "rate" => {
                let allowed = || (value.span(), format!("rate: gigabits in a second, {}", list(Rate::ALL.iter().map(|r| r.gigabits))));
                device.rate = integer(value).and_then(|n| Rate::of(n.try_into().ok()?)).ok_or_else(allowed)?;
            }
            "mtu" => {
                let allowed = || (value.span(), "mtu: 256, 512, 1024, 2048 or 4096".to_owned());
                let mtu = integer(value).filter(|n| matches!(n, 256 | 512 | 1024 | 2048 | 4096)).ok_or_else(allowed)?;
                device.mtu = mtu as u32;
            }
            "atomics" => {
                device.atomics = word(value, &["none", "device"], |w| match w {
                    "none" => Some(Atomics::None),
                    "device" => Some(Atomics::Device),
                    _ => None,
                })?;
            }
            "gids" => {
                let allowed = || (value.span(), "gids: a number from 1 to 16".to_owned());
                device.gids = integer(value).filter(|n| (1..=16).contains(n)).ok_or_else(allowed)? as u8;
            }
            "numa_node" => {
                let allowed = || (value.span(), "numa_node: a number from -1 (unknown) to 1023".to_owned());
                device.numa_node = integer(value).filter(|n| (-1..1024).contains(n)).ok_or_else(allowed)? as i32;
            }
            "limits" => {
                let DeValue::Table(table) = value.get_ref() else { return Err((value.span(), "limits are a table [device.limits]".to_owned())) };
                limits(&mut device.limits, table)?;
            }
            other => return Err((key.span(), format!("a device has no \"{other}\"; allowed are {KEYS}"))),
        }
    }
    Ok(device)
}

fn limits(limits: &mut Limits, table: &DeTable<'_>) -> Result<(), At> {
    for (key, value) in table {
        let name = &**key.get_ref();
        let mut most = LIMITS_MAX;
        let (Some(limit), Some(most)) = (limits.get_mut(name), most.get_mut(name)) else {
            return Err((key.span(), format!("there is no limit \"{name}\"; allowed are {}", Limits::NAMES.join(", "))));
        };
        let allowed = || (value.span(), format!("{name}: a number from 1 to {most}"));
        *limit = integer(value).and_then(|n| u64::try_from(n).ok()).filter(|n| (1..=*most).contains(n)).ok_or_else(allowed)?;
    }
    Ok(())
}

/// The name of a device: it becomes the name of a file.
fn name(value: &Spanned<DeValue<'_>>) -> Result<String, At> {
    const RULE: &str = "1 to 63 letters, digits, _ and -";
    let name = text(value, RULE)?;
    let is_well = !name.is_empty() && name.len() < 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if is_well { Ok(name.to_owned()) } else { Err((value.span(), format!("name: {RULE}"))) }
}

fn text<'a>(value: &'a Spanned<DeValue<'_>>, allowed: &str) -> Result<&'a str, At> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text),
        _ => Err((value.span(), format!("a text in quotes is wanted: {allowed}"))),
    }
}

fn word<T>(value: &Spanned<DeValue<'_>>, allowed: &[&str], find: impl Fn(&str) -> Option<T>) -> Result<T, At> {
    let wrong = || (value.span(), format!("one of {} in quotes is wanted", list(allowed.iter())));
    match value.get_ref() {
        DeValue::String(text) => find(text).ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

fn integer(value: &Spanned<DeValue<'_>>) -> Option<i64> {
    match value.get_ref() {
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok(),
        _ => None,
    }
}

fn list(items: impl Iterator<Item = impl ToString>) -> String {
    items.map(|i| i.to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_describes_devices() {
        let text = "[[device]]\naddress = \"127.0.0.2\"\n[[device]]\nname = \"left\"\nimitate = \"mlx5\"\nrate = 25\nmtu = 1024\nfaults = \"port=1s..2s\"\n\
                    atomics = \"none\"\nnuma_node = 1\ngids = 4\n[device.limits]\nmax_qp = 0x10\nmax_cqe = 100\n";
        let devices = parse(text).unwrap();
        assert_eq!(devices.iter().map(|d| &*d.name).collect::<Vec<_>>(), ["bellwire0", "left"]);
        assert_eq!(devices[0].limits, LIMITS_MAX);
        let left = &devices[1];
        assert_eq!((left.rate.gigabits, left.mtu_code(), left.atomics, left.numa_node), (25, 3, Atomics::None, 1));
        assert_eq!((left.limits.max_qp, left.limits.max_cqe, left.limits.max_qp_rd_atom), (16, 100, 16));
        assert_eq!((devices[0].gids, left.gids), (1, 4));
        assert!(left.faults.is_some() && devices[0].faults.is_none());
        assert_eq!(parse("").unwrap().len(), 1);
    }

    #[test]
    fn errors_name_line_and_what_is_allowed() {
        for (text, line, says) in [
            ("[[device]]\nname = \"a b\"", 2, "letters, digits"),
            ("[[device]]\nrate = 11", 2, "10, 25, 40"),
            ("[[device]]\n\n\nspeed = 1", 4, "allowed are name, imitate"),
            ("\nmax_qp = 1", 2, "[[device]]"),
            ("[device]\nname = \"a\"", 1, "two brackets"),
            ("[[device]]\nimitate = \"mlx9\"", 2, "bellwire, mlx5, rxe"),
            ("[[device]]\nmtu = 1500", 2, "256, 512, 1024"),
            ("[[device]]\nnuma_node = -2", 2, "from -1"),
            ("[[device]]\n[device.limits]\nmax_qp = 0", 3, "from 1 to 8191"),
            ("[[device]]\n[device.limits]\nmax_qp = 100000", 3, "from 1 to 8191"),
            ("[[device]]\n[device.limits]\nmax_qpp = 1", 3, "max_qp, max_qp_wr"),
            ("[[device]]\nfaults = \"nonsense\"", 2, "faults"),
            ("[[device]]\nname = \"a\"\n[[device]]\nname = \"a\"", 3, "two devices"),
            ("[[device]]\nname = ", 2, ""),
            ("[[device]]\nname = 1", 2, "in quotes"),
        ] {
            let (at, what) = parse(text).unwrap_err();
            assert!(at == line && what.contains(says), "{text}: {at}: {what}");
        }
        let many = "[[device]]\n".repeat(33);
        assert_eq!(parse(&many).unwrap_err().0, 33);
    }
}
