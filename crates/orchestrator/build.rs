//! Generates the messages of etcd that `proto/etcd.proto` names, and clients of its services,
//! without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = protox::compile(["proto/etcd.proto"], ["proto"])?;
    tonic_prost_build::configure().build_server(false).emit_rerun_if_changed(false).compile_fds(files)?;
    println!("cargo:rerun-if-changed=proto/etcd.proto");
    Ok(())
}
