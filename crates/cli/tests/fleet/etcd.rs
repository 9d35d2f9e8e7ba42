//! Three members of etcd as processes, on free ports of the loopback interface.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::free_port;

/// The place of etcd on the path, if it is installed.
pub(super) fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("etcd")).find(|file| file.is_file())
}

/// A cluster. Dropping it kills its members.
pub(super) struct Cluster {
    members: Vec<Child>,
    ports: Vec<u16>,
    _folder: tempfile::TempDir,
}

impl Cluster {
    /// Starts three members, and waits until each can be connected to.
    pub(super) fn start() -> Option<Self> {
        let program = program()?;
        // Nothing here cuts the power, and a disk that other tests keep busy would end leases.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
        let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let peers: Vec<String> = (0..3).map(|_| format!("http://127.0.0.1:{}", free_port())).collect();
        let named = peers.iter().enumerate().map(|(member, peer)| format!("m{member}={peer}"));
        let cluster = named.collect::<Vec<_>>().join(",");
        let members = peers.iter().zip(&ports).enumerate().map(|(member, (peer, port))| {
            let client = format!("http://127.0.0.1:{port}");
            let name = format!("m{member}");
            Command::new(&program)
                .arg("--data-dir")
                .arg(folder.path().join(&name))
                .args(["--name", &name, "--initial-cluster", &cluster, "--initial-cluster-state", "new"])
                .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
                .args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer])
                .args(["--initial-cluster-token", &format!("millpond-{}", std::process::id())])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("a member of etcd")
        });
        let cluster = Self { members: members.collect(), ports, _folder: folder };
        for port in &cluster.ports {
            let is_up = (0..600).any(|_| {
                let connected = TcpStream::connect(("127.0.0.1", *port)).is_ok();
                if !connected {
                    base::thread::sleep(Duration::from_millis(50));
                }
                connected
            });
            assert!(is_up, "a member of etcd does not listen at port {port}");
        }
        Some(cluster)
    }

    /// The addresses of all members, as an orchestrator takes them.
    pub(super) fn endpoints(&self) -> String {
        let urls: Vec<String> = self.ports.iter().map(|port| format!("http://127.0.0.1:{port}")).collect();
        urls.join(",")
    }

    /// Sends a signal to a member.
    pub(super) fn signal(&self, member: usize, signal: Signal) {
        let pid = Pid::from_child(&self.members[member]);
        kill_process(pid, signal).expect("it runs");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}
