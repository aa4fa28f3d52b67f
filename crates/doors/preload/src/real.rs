//! The functions behind the hooks: those of the same names in the next library.
#![allow(unsafe_code)] // dlsym, the only way to the function that a hook stands before

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A function of the next library, looked up at its first call.
pub struct Real {
    name: &'static CStr,
    at: AtomicUsize,
}

impl Real {
    pub const fn new(name: &'static CStr) -> Real {
        Real { name, at: AtomicUsize::new(0) }
    }

    /// Its address.
    pub fn get(&self) -> usize {
        match self.at.load(Ordering::Relaxed) {
            0 => self.find(),
            at => at,
        }
    }

    #[cold]
    fn find(&self) -> usize {
        // SAFETY: the name ends with a zero byte.
        let at = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
        if at == 0 {
            // A program that calls the function was linked with a library that contains it.
            crate::border::tell_always(&format!("the C library has no function {:?}", self.name));
            std::process::abort();
        }
        self.at.store(at, Ordering::Relaxed);
        at
    }
}

/// Defines hooks: C functions that replace those of the same names. `real` is the next library's function; each of several
/// names with one body (`open`, `open64`) has its own.
macro_rules! hooks {
    ($( fn $($name:ident)|+ ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty = |$real:ident| $body:block )*) => {
        $( hooks!(@each [$($name)+] ($($arg: $ty),*) $ret, $real $body); )*
    };
    (@each [$($name:ident)+] $args:tt $ret:ty, $real:ident $body:block) => {
        $( hooks!(@one $name $args $ret, $real $body); )+
    };
    (@one $name:ident ($($arg:ident: $ty:ty),*) $ret:ty, $real:ident $body:block) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            static REAL: $crate::real::Real = {
                let name = concat!(stringify!($name), "\0");
                match std::ffi::CStr::from_bytes_with_nul(name.as_bytes()) {
                    Ok(name) => $crate::real::Real::new(name),
                    Err(_) => panic!(),
                }
            };
            // SAFETY: the function of this name in the C library has this signature; the caller's promise about the arguments is
            // passed on.
            unsafe {
                #[allow(unused_variables)]
                let $real: unsafe extern "C" fn($($ty),*) -> $ret = std::mem::transmute(REAL.get());
                $body
            }
        }
    };
}
pub(crate) use hooks;
