//! Gives the shared library the name that programs remember.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libthalweg-core.so.{}", thalweg_types::abi::ABI);
}
