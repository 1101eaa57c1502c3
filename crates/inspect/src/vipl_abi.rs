// SPDX-License-Identifier: MIT OR Apache-2.0
//! `libvipl.so` as measuring programs use it: its functions, found and loaded at run time, with nothing of its source linked in.

use bellwire_vipl_abi::{FILE_NAMES, within};
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_ulong, c_void};
use std::path::{Path, PathBuf};

use crate::error::Error;

pub use bellwire_vipl_abi::{Descriptor, MemAttributes, NicAttributes, STATUS_ERROR_MASK, Segment, ViAttributes, code, control};

/// A handle of the library: NIC, VI, protection tag or pending connection.
pub type Handle = *mut c_void;
type OutHandle = *mut Handle;
type OutDescriptor = *mut *mut Descriptor;

macro_rules! api {
    ($(#[$doc:meta] $field:ident = $name:literal : fn($($type:ty),*);)*
     optional: $(#[$odoc:meta] $ofield:ident = $oname:literal : fn($($otype:ty),*);)*) => {
        /// The functions of the library that the benchmarks call. Valid as long as the library stays loaded, which is until the process ends.
        #[derive(Debug, Clone, Copy)]
        pub struct Api {
            $(#[$doc] pub $field: unsafe extern "C" fn($($type),*) -> c_int,)*
            $(#[$odoc] pub $ofield: Option<unsafe extern "C" fn($($otype),*) -> c_int>,)*
        }

        impl Api {
            fn resolve(library: &libloading::Library) -> Result<Self, Error> {
                // SAFETY: the names and types are those of the library's public header.
                unsafe {
                    Ok(Api {
                        $($field: *library.get($name).map_err(|error| Error::failed(error.to_string()))?,)*
                        $($ofield: library.get($oname).ok().map(|symbol| *symbol),)*
                    })
                }
            }
        }
    };
}

api! {
    /// `VipOpenNic`.
    open_nic = b"VipOpenNic": fn(*const c_char, OutHandle);
    /// `VipCloseNic`.
    close_nic = b"VipCloseNic": fn(Handle);
    /// `VipQueryNic`.
    query_nic = b"VipQueryNic": fn(Handle, *mut NicAttributes);
    /// `VipCreatePtag`.
    create_ptag = b"VipCreatePtag": fn(Handle, OutHandle);
    /// `VipRegisterMem`.
    register_mem = b"VipRegisterMem": fn(Handle, *mut c_void, c_ulong, *mut MemAttributes, *mut u32);
    /// `VipDeregisterMem`.
    deregister_mem = b"VipDeregisterMem": fn(Handle, *mut c_void, u32);
    /// `VipCreateVi`.
    create_vi = b"VipCreateVi": fn(Handle, *mut ViAttributes, Handle, Handle, OutHandle);
    /// `VipDestroyVi`.
    destroy_vi = b"VipDestroyVi": fn(Handle);
    /// `VipPostSend`.
    post_send = b"VipPostSend": fn(Handle, *mut Descriptor, u32);
    /// `VipPostRecv`.
    post_recv = b"VipPostRecv": fn(Handle, *mut Descriptor, u32);
    /// `VipSendDone`.
    send_done = b"VipSendDone": fn(Handle, OutDescriptor);
    /// `VipRecvDone`.
    recv_done = b"VipRecvDone": fn(Handle, OutDescriptor);
    /// `VipSendWait`.
    send_wait = b"VipSendWait": fn(Handle, c_ulong, OutDescriptor);
    /// `VipRecvWait`.
    recv_wait = b"VipRecvWait": fn(Handle, c_ulong, OutDescriptor);
    /// `VipConnectWait`.
    connect_wait = b"VipConnectWait": fn(Handle, *mut c_void, c_ulong, *mut c_void, *mut ViAttributes, OutHandle);
    /// `VipConnectAccept`.
    connect_accept = b"VipConnectAccept": fn(Handle, Handle);
    /// `VipConnectRequest`.
    connect_request = b"VipConnectRequest": fn(Handle, *mut c_void, *mut c_void, c_ulong, *mut ViAttributes);
    /// `VipDisconnect`.
    disconnect = b"VipDisconnect": fn(Handle);
    /// `VipCreateCQ`.
    create_cq = b"VipCreateCQ": fn(Handle, c_ulong, OutHandle);
    /// `VipDestroyCQ`.
    destroy_cq = b"VipDestroyCQ": fn(Handle);
    /// `VipCQDone`.
    cq_done = b"VipCQDone": fn(Handle, OutHandle, *mut c_int);
    optional:
    /// `VipNSInit`.
    ns_init = b"VipNSInit": fn(Handle, *mut c_void);
    /// `VipNSGetHostByName`.
    ns_get_host_by_name = b"VipNSGetHostByName": fn(Handle, *const c_char, *mut c_void, c_ulong);
    /// `VipxAllocMem`: memory that the engine owns and peers can map.
    alloc_mem = b"VipxAllocMem": fn(Handle, c_ulong, *mut *mut c_void);
    /// `VipxFreeMem`.
    free_mem = b"VipxFreeMem": fn(Handle, *mut c_void);
    /// `VipxSendInline`: a send without descriptor.
    send_inline = b"VipxSendInline": fn(Handle, *const c_void, u32, u32, u32);
}

/// A loaded library.
#[derive(Debug)]
pub struct Loaded {
    /// Its functions.
    pub api: Api,
    /// Where it was found.
    pub path: PathBuf,
}

/// Loads the library: `explicit`, else the environment variable `BELLWIRE_VIPL`, else next to the executable, else `../lib` from there, else
/// wherever the loader finds `libvipl.so.1`. It stays loaded until the process ends.
///
/// # Errors
/// If no library is found, or it lacks a function.
pub fn load(explicit: Option<&Path>) -> Result<Loaded, Error> {
    let places = candidates(explicit, std::env::var_os("BELLWIRE_VIPL"), std::env::current_exe().ok());
    // SAFETY: it is the library that the user asked to measure, where the documentation says that it is looked for.
    let (library, path) =
        unsafe { bellwire_vipl_abi::load(places) }.map_err(|tried| Error::failed(format!("libvipl not found; tried:\n  {}", tried.join("\n  "))))?;
    let api = Api::resolve(&library).map_err(|error| error.within(&path.display().to_string()))?;
    std::mem::forget(library);
    Ok(Loaded { api, path })
}

/// An open NIC, closed when it is dropped.
#[derive(Debug)]
pub struct Nic {
    /// The library's functions.
    pub api: Api,
    /// The NIC's handle; valid while this lives.
    pub handle: Handle,
    /// What the library says of it.
    pub attributes: NicAttributes,
    /// Name and library, for people.
    pub description: String,
}

impl Nic {
    /// Loads the library and opens `device`.
    ///
    /// # Errors
    /// If the library is not found or refuses.
    pub fn open(library: Option<&Path>, device: &str) -> Result<Self, Error> {
        let Loaded { api, path } = load(library)?;
        let name = CString::new(device).map_err(|_| Error::failed("device name with a NUL"))?;
        let mut handle = core::ptr::null_mut();
        // SAFETY: all-zero bytes are a valid value of this struct of integers and pointers.
        let mut attributes: NicAttributes = unsafe { core::mem::zeroed() };
        // SAFETY: the out pointer is to a live local of the type the header names.
        check("VipOpenNic", unsafe { (api.open_nic)(name.as_ptr(), &mut handle) })?;
        // From here on dropping it closes the NIC.
        let mut nic = Nic { api, handle, attributes, description: String::new() };
        // SAFETY: the handle was opened above; the out pointer is to a live local.
        check("VipQueryNic", unsafe { (api.query_nic)(handle, &mut attributes) })?;
        nic.attributes = attributes;
        nic.description = format!("{} ({})", path.display(), nic_name(&attributes));
        Ok(nic)
    }

    /// Whether the engine gives out memory of its own.
    pub fn has_memory(&self) -> bool {
        self.api.alloc_mem.is_some() && self.api.free_mem.is_some()
    }

    /// Whose memory programs use, for people.
    pub fn memory(&self) -> &'static str {
        if self.has_memory() { "engine-allocated memory" } else { "user memory" }
    }
}

impl Drop for Nic {
    fn drop(&mut self) {
        // SAFETY: the handle was opened by `open` and is closed once; this is its last use.
        let _ = unsafe { (self.api.close_nic)(self.handle) };
    }
}

/// Where the library may be, in order. What the user names explicitly is the only candidate.
fn candidates(explicit: Option<&Path>, environment: Option<OsString>, executable: Option<PathBuf>) -> Vec<PathBuf> {
    if let Some(path) = explicit.map(Path::to_path_buf).or(environment.map(PathBuf::from)) {
        return vec![path];
    }
    let mut paths = Vec::new();
    if let Some(directory) = executable.as_deref().and_then(Path::parent) {
        paths = within([directory, &directory.join("../lib")]);
    }
    paths.push(PathBuf::from(FILE_NAMES[0]));
    paths
}

/// The name of a `VIP_RETURN` value, for messages.
pub fn return_name(value: i32) -> String {
    const NAMES: [&str; 17] = [
        "VIP_SUCCESS",
        "VIP_NOT_DONE",
        "VIP_INVALID_PARAMETER",
        "VIP_ERROR_RESOURCE",
        "VIP_TIMEOUT",
        "VIP_REJECT",
        "VIP_INVALID_RELIABILITY_LEVEL",
        "VIP_INVALID_MTU",
        "VIP_INVALID_QOS",
        "VIP_INVALID_PTAG",
        "VIP_INVALID_RDMAREAD",
        "VIP_DESCRIPTOR_ERROR",
        "VIP_INVALID_STATE",
        "VIP_ERROR_NAMESERVICE",
        "VIP_NO_MATCH",
        "VIP_NOT_REACHABLE",
        "VIP_ERROR_NOT_SUPPORTED",
    ];
    usize::try_from(value).ok().and_then(|index| NAMES.get(index)).map_or_else(|| format!("VIP_RETURN {value}"), |name| (*name).to_owned())
}

/// Turns a return value into a result; `call` names the function in the message.
///
/// # Errors
/// Anything but `VIP_SUCCESS`.
pub fn check(call: &str, value: c_int) -> Result<(), Error> {
    match value {
        code::SUCCESS => Ok(()),
        code::ERROR_NOT_SUPPORTED => Err(Error::unsupported(format!("{call} is not supported"))),
        other => Err(Error::failed(format!("{call} returned {}", return_name(other)))),
    }
}

/// A NIC's name from its attributes.
pub fn nic_name(attributes: &NicAttributes) -> String {
    let bytes: Vec<u8> = attributes.name.iter().map(|&character| character as u8).chain([0]).collect();
    CStr::from_bytes_until_nul(&bytes).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explicit_path_is_the_only_one() {
        let exe = Some(PathBuf::from("/opt/b/bin/bellwire"));
        assert_eq!(candidates(Some(Path::new("/x.so")), Some("/y.so".into()), exe.clone()), vec![PathBuf::from("/x.so")]);
        assert_eq!(candidates(None, Some("/y.so".into()), exe.clone()), vec![PathBuf::from("/y.so")]);
        let found = candidates(None, None, exe);
        assert_eq!(found.first(), Some(&PathBuf::from("/opt/b/bin/libvipl.so.1")));
        assert!(found.contains(&PathBuf::from("/opt/b/bin/../lib/libvipl.so.1")));
        assert_eq!(found.last(), Some(&PathBuf::from("libvipl.so.1")));
    }

    #[test]
    fn a_missing_library_is_named() {
        let error = load(Some(Path::new("/nonexistent/libvipl.so"))).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/libvipl.so"), "{error}");
    }

    #[test]
    fn return_values_have_names() {
        assert_eq!(return_name(14), "VIP_NO_MATCH");
        assert_eq!(return_name(99), "VIP_RETURN 99");
        assert!(matches!(check("VipX", 16), Err(Error::Unsupported(_))));
    }
}
