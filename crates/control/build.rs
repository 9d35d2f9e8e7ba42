//! Generates the messages and services of `proto/control.proto`, without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = protox::compile(["proto/control.proto"], ["proto"])?;
    tonic_prost_build::configure().emit_rerun_if_changed(false).compile_fds(files)?;
    println!("cargo:rerun-if-changed=proto/control.proto");
    Ok(())
}
