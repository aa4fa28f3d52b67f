//! The bytes that a target saw: an input without its first byte, its checksums set right where that asks for it.
//!
//!   cargo run --manifest-path fuzz/Cargo.toml --example take -- fuzz/artifacts/TARGET/INPUT OUT
//!
//! Bytes of `open`, `verify` and `recover` belong into crates/reader/tests/found, others into crates/bp/tests/found.

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = &arguments[..] else { panic!("take INPUT OUT") };
    let (_, bytes) = thalweg_fuzz::input(&std::fs::read(from).unwrap()).expect("an input is not empty");
    std::fs::write(to, bytes).unwrap();
}
