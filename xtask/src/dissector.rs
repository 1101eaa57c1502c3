// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dissector for Wireshark: a program in Lua, made of the tables of docs/PROTOCOL.md.

use std::fmt::Write;
use std::path::Path;

const FROM: &str = "docs/PROTOCOL.md";
const TO: &str = "crates/cli/src/capture/bellwire.lua";

/// A kind of packet, by its row.
#[derive(Debug, PartialEq, Eq)]
struct Kind {
    number: u8,
    name: String,
    short: String,
    word: String,
    /// Bytes that it has at least.
    bytes: usize,
    fields: Vec<Field>,
}

/// A field behind the common header, by its place in the layout.
#[derive(Debug, PartialEq, Eq)]
struct Field {
    at: usize,
    name: String,
    bytes: usize,
}

/// The rows of the table with that head.
fn rows<'t>(text: &'t str, head: &str) -> Vec<Vec<&'t str>> {
    let table = text.split_once(head).map_or("", |(_, rest)| rest);
    let lines = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The fields of a line of a layout: places, names and lengths, three spaces apart. Zeros, and what
/// has no length, are left out.
fn fields(line: &str) -> Vec<Field> {
    let field = |part: &str| {
        let (at, rest) = part.trim().split_once(' ')?;
        let (name, bytes) = rest.split_once('(')?;
        let length: usize = bytes.split([')', ';']).next()?.split(',').map_while(|n| n.split_whitespace().next()?.parse::<usize>().ok()).sum();
        (length != 0 && name.trim() != "zero").then(|| Some(Field { at: at.parse().ok()?, name: name.trim().to_owned(), bytes: length })).flatten()
    };
    line.split("   ").filter_map(field).collect()
}

fn kinds(text: &str) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    for row in rows(text, "| kind | | short | word | bytes | session |") {
        let &[number, name, short, word, bytes, _] = row.as_slice() else { continue };
        let Ok(number) = number.parse() else { continue };
        let bytes = bytes.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0);
        kinds.push(Kind { number, name: name.to_owned(), short: short.to_owned(), word: word.to_owned(), bytes, fields: Vec::new() });
    }
    let layouts = text.split_once("\n## Checksum").map_or(text, |(before, _)| before);
    let mut last = None;
    for line in layouts.lines() {
        let named = line.trim_start().split_once(':').and_then(|(name, rest)| Some((kinds.iter().position(|kind| kind.name == name)?, rest)));
        match (named, last) {
            (Some((kind, rest)), _) => {
                last = Some(kind);
                kinds[kind].fields = fields(rest);
            }
            // A layout goes on in the next line.
            (None, Some(kind)) if line.trim_start().starts_with(|c: char| c.is_ascii_digit()) => kinds[kind].fields.extend(fields(line)),
            _ => last = None,
        }
    }
    kinds
}

/// A name as filters have it.
fn filter(name: &str) -> String {
    let plain: String = name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { ' ' }).collect();
    plain.split_whitespace().collect::<Vec<_>>().join("_")
}

fn dissector(text: &str) -> String {
    let mut lua = String::from(
        "-- SPDX-License-Identifier: MIT OR Apache-2.0\n-- Packets of Bellwire's NICs for Wireshark. Made by `cargo xtask dissector` of docs/PROTOCOL.md; changes are made there.\n\
         local bellwire = Proto(\"bellwire\", \"Bellwire NIC-to-NIC protocol\")\nlocal f = bellwire.fields\n",
    );
    let kinds = kinds(text);
    let names: Vec<String> = kinds.iter().map(|kind| format!("[{}] = \"{}\"", kind.number, kind.name)).collect();
    let _ = writeln!(lua, "local kinds = {{ {} }}", names.join(", "));
    lua.push_str(
        "f.version = ProtoField.uint8(\"bellwire.version\", \"Version\", base.DEC, nil, 0xf0)\n\
         f.kind = ProtoField.uint8(\"bellwire.kind\", \"Kind\", base.DEC, kinds, 0x0f)\n\
         f.flags = ProtoField.uint8(\"bellwire.flags\", \"Flags\", base.HEX)\n\
         f.short = ProtoField.uint16(\"bellwire.short\", \"Short\")\n\
         f.word = ProtoField.uint32(\"bellwire.word\", \"Word\")\n\
         f.session = ProtoField.uint64(\"bellwire.session\", \"Receiver's session\", base.HEX)\n\
         f.frame = ProtoField.bytes(\"bellwire.frame\", \"Frame\")\n\
         f.sealed = ProtoField.bytes(\"bellwire.sealed\", \"Encrypted\")\n\
         f.bitmap = ProtoField.bytes(\"bellwire.ack.bitmap\", \"bitmap\")\n\
         f.search = ProtoField.bytes(\"bellwire.search\", \"Search for a NIC\")\n",
    );
    let flags = rows(text, "| flag | bit | in | |");
    for row in &flags {
        let &[name, bit, _, means] = row.as_slice() else { continue };
        let mask = 1u32 << bit.parse::<u32>().unwrap_or(0);
        let _ = writeln!(lua, "f.flag_{0} = ProtoField.bool(\"bellwire.flags.{0}\", \"{name}: {means}\", 8, nil, {mask:#04x})", filter(name));
    }
    let _ = writeln!(lua, "local flags = {{ {} }}", flags.iter().map(|row| format!("f.flag_{}", filter(row[0]))).collect::<Vec<_>>().join(", "));
    lua.push_str("local layouts = {}\n");
    for kind in &kinds {
        let _ = writeln!(lua, "layouts[{}] = {{ bytes = {}, short = \"{}\", word = \"{}\" }}", kind.number, kind.bytes, kind.short, kind.word);
        for field in kind.fields.iter().filter(|field| !field.name.starts_with("bitmap")) {
            let name = filter(&format!("{} {}", kind.name, field.name));
            let of = match field.bytes {
                1 => "uint8",
                2 => "uint16",
                4 => "uint32",
                8 => "uint64",
                _ => "bytes",
            };
            let base = if field.bytes == 8 { ", base.HEX" } else { "" };
            let path = format!("bellwire.{}.{}", filter(&kind.name), filter(&field.name));
            let _ = writeln!(lua, "f.{name} = ProtoField.{of}(\"{path}\", \"{}\"{base})", field.name);
            let _ = writeln!(lua, "table.insert(layouts[{}], {{ {}, {}, f.{name}, {} }})", kind.number, field.at, field.bytes, of != "bytes");
        }
    }
    lua.push_str(BODY);
    lua
}

/// The part that no table says.
const BODY: &str = r#"
local AUTH, HEADER, DATA, ACK = 0x80, 16, 1, 2

local function is_packet(buffer, at)
    local left = buffer:len() - at
    if left < HEADER then return false end
    local first, given = buffer(at, 1):uint(), buffer(at + 1, 1):uint()
    local layout = layouts[first % 16]
    if math.floor(first / 16) ~= 1 or not layout or math.floor(given / 64) % 2 ~= 0 then return false end
    return left >= (given >= AUTH and HEADER or layout.bytes)
end

-- One packet; where the next one begins, if the network has joined some.
local function packet(buffer, at, tree, said)
    local first, given = buffer(at, 1):uint(), buffer(at + 1, 1):uint()
    local kind, is_sealed = first % 16, given >= AUTH
    local layout = layouts[kind]
    local head = tree:add(bellwire, buffer(at))
    head:add(f.version, buffer(at, 1))
    head:add(f.kind, buffer(at, 1))
    local bits = head:add(f.flags, buffer(at + 1, 1))
    for _, flag in ipairs(flags) do bits:add(flag, buffer(at + 1, 1)) end
    head:add_le(f.short, buffer(at + 2, 2)):append_text(" (" .. layout.short .. ")")
    head:add_le(f.word, buffer(at + 4, 4)):append_text(" (" .. layout.word .. ")")
    head:add_le(f.session, buffer(at + 8, 8))
    local text = kinds[kind] .. " " .. buffer(at + 4, 4):le_uint()
    if math.floor(given / 8) % 2 == 1 and kind == DATA then text = text .. " again" end
    table.insert(said, is_sealed and text .. " sealed" or text)
    local clear = is_sealed and (kind == DATA and 32 or HEADER) or buffer:len() - at
    for _, field in ipairs(layout) do
        local from, bytes, proto, is_number = table.unpack(field)
        if from + bytes <= clear and at + from + bytes <= buffer:len() then
            local range = buffer(at + from, bytes)
            if is_number then head:add_le(proto, range) else head:add(proto, range) end
        end
    end
    local next_at = at + layout.bytes
    if is_sealed then
        if at + clear < buffer:len() then head:add(f.sealed, buffer(at + clear)) end
        return buffer:len()
    elseif kind == DATA then
        while next_at + 4 <= buffer:len() do
            local words = buffer(next_at, 1):uint()
            if words < 1 or words > 8 then break end
            local bytes = 4 + 8 * words + buffer(next_at + 2, 2):le_uint()
            if next_at + bytes > buffer:len() then bytes = buffer:len() - next_at end
            head:add(f.frame, buffer(next_at, bytes)):prepend_text(words .. " words of head: ")
            next_at = next_at + bytes
        end
    elseif kind == ACK then
        local bytes = math.min(8 * buffer(at + 2, 2):le_uint(), buffer:len() - next_at)
        if bytes > 0 then head:add(f.bitmap, buffer(next_at, bytes)) end
        next_at = next_at + bytes
    else
        next_at = buffer:len()
    end
    return next_at
end

function bellwire.dissector(buffer, pinfo, tree)
    local at, said = 0, {}
    if buffer:len() > 1 and buffer(0, 1):uint() >= 0xf1 and buffer(0, 1):uint() <= 0xf5 then
        tree:add(bellwire, buffer()):add(f.search, buffer())
        table.insert(said, "search for a NIC")
        at = buffer:len()
    end
    while is_packet(buffer, at) do at = packet(buffer, at, tree, said) end
    if #said == 0 then return 0 end
    pinfo.cols.protocol = "Bellwire"
    pinfo.cols.info = table.concat(said, ", ")
    return at
end

-- NICs have ports of their own, so a packet is known by how it begins; the directory has this port.
bellwire:register_heuristic("udp", function(buffer, pinfo, tree)
    return is_packet(buffer, 0) and bellwire.dissector(buffer, pinfo, tree) > 0
end)
DissectorTable.get("udp.port"):add(7118, bellwire)
"#;

/// Complains if the dissector is not the one of the tables.
pub fn check(root: &Path, complaints: &mut Vec<String>) {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    if dissector(&read(FROM)) != read(TO) {
        complaints.push(format!("{TO} is not that of the tables of {FROM}: `cargo xtask dissector` makes it"));
    }
}

/// Makes the dissector.
///
/// # Errors
/// A file cannot be read or written.
pub fn make(root: &Path) -> std::io::Result<()> {
    std::fs::write(root.join(TO), dissector(&std::fs::read_to_string(root.join(FROM))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_layouts() {
        let text = "| kind | | short | word | bytes | session |\n|---|---|\n| 1 | DATA | back | number | 32 + frames | yes |\n| 6 | CLOSE_ACK | 0 | x | 16 | yes |\n\n\
                    ```\n  DATA:    16 ack (4)   20 zero (2)   22 lowest and highest (1, 1)   24 bitmap (8 each; bit i)\n           30 last one (2)\n  CLOSE_ACK:  reasons: 1 none\n```\n## Checksum\n  DATA: 1 x (1)\n";
        let kinds = kinds(text);
        let of = |kind: usize| kinds[kind].fields.iter().map(|field| (field.at, field.name.as_str(), field.bytes)).collect::<Vec<_>>();
        assert_eq!((kinds[0].bytes, kinds[1].bytes, kinds[0].short.as_str()), (32, 16, "back"));
        assert_eq!(of(0), [(16, "ack", 4), (22, "lowest and highest", 2), (24, "bitmap", 8), (30, "last one", 2)]);
        assert_eq!(of(1), []);
        assert_eq!(filter("initiator's session"), "initiator_s_session");
    }
}
