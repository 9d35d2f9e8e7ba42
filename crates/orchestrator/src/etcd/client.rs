//! The way to the members of an etcd cluster.
//!
//! A request goes to the member that answered last. If that refuses the connection, does not answer
//! in a part of the time, or has lost its cluster, the request goes to the next one: so it may be
//! carried out more than once, which the messages of the election and of leaders allow.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use control::access::causes;
use tonic::codegen::tokio_stream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status};

use super::messages::auth_client::AuthClient;
use super::messages::kv_client::KvClient;
use super::messages::lease_client::LeaseClient;
use super::messages::{AuthenticateRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse};
use super::{Ask, AskError, Reply};

/// Larger answers are refused: a page of records has less than a megabyte.
const LARGEST_ANSWER: usize = 16 << 20;

/// The settings of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdConfig {
    /// `http://HOST:PORT` or `https://HOST:PORT` of each member.
    pub endpoints: Vec<String>,
    /// The keys' prefix.
    pub prefix: String,
    /// The lease of the election, in seconds.
    pub lease_secs: u32,
    /// The user, and the file with the password.
    pub user: Option<(String, PathBuf)>,
    /// The authority of the members' certificates, PEM.
    pub authority: Option<PathBuf>,
    /// This end's certificate and its key, PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// `HOST:PORT` at which agents register with this orchestrator. `None`: the address that is
    /// listened on.
    pub advertise: Option<String>,
}

/// A member of a cluster.
struct Member {
    address: String,
    endpoint: Endpoint,
    channel: Mutex<Channel>,
}

impl Member {
    fn channel(&self) -> Channel {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes another connection from now on: what was cut without a word may stay silent for long
    /// after the member can be reached again.
    fn reconnect(&self) {
        *self.channel.lock().unwrap_or_else(PoisonError::into_inner) = self.endpoint.connect_lazy();
    }
}

/// A client of a cluster.
pub(crate) struct Client {
    members: Vec<Member>,
    /// The member that is asked first.
    present: AtomicUsize,
    user: Option<(String, String)>,
    token: Mutex<Option<MetadataValue<Ascii>>>,
    /// The longest that one member is waited for.
    patience: Duration,
    /// The longest that all are waited for.
    lease: Duration,
}

fn read(what: &str, path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{what} {}: {error}", path.display()))
}

impl Client {
    /// A client, which connects when it is asked for something. Called in a runtime.
    ///
    /// # Errors
    /// In words, if an address or a file is wrong.
    pub(crate) fn new(config: &EtcdConfig) -> Result<Self, String> {
        // All members are tried within a lease.
        let lease = Duration::from_secs(config.lease_secs.into());
        let parts = u32::try_from(config.endpoints.len()).unwrap_or(u32::MAX).saturating_add(1);
        let patience = lease / parts;
        let authority = config.authority.as_deref().map(|path| read("the authority of etcd", path));
        let authority = authority.transpose()?;
        let identity = config.certificate.as_ref().map(|(certificate, key)| {
            let certificate = read("the certificate for etcd", certificate)?;
            Ok::<_, String>(Identity::from_pem(certificate, read("the key for etcd", key)?))
        });
        let identity = identity.transpose()?;
        let mut members = Vec::with_capacity(config.endpoints.len());
        for address in &config.endpoints {
            let is_encrypted = address.starts_with("https://");
            if !is_encrypted && !address.starts_with("http://") {
                return Err(format!("--etcd: {address} does not begin with http:// or https://"));
            }
            let endpoint = Endpoint::from_shared(address.clone());
            let mut endpoint = endpoint.map_err(|error| format!("--etcd: {address}: {error}"))?;
            if is_encrypted {
                let authority = authority.as_ref().ok_or("--etcd: https needs --etcd-ca")?;
                let authority = Certificate::from_pem(authority);
                let mut tls = ClientTlsConfig::new().ca_certificate(authority).timeout(patience);
                if let Some(identity) = &identity {
                    tls = tls.identity(identity.clone());
                }
                endpoint = endpoint.tls_config(tls).map_err(|error| causes(&error))?;
            }
            let endpoint = endpoint.connect_timeout(patience).tcp_nodelay(true);
            let channel = Mutex::new(endpoint.connect_lazy());
            members.push(Member { address: address.clone(), endpoint, channel });
        }
        let user = config.user.as_ref().map(|(user, path)| {
            let password = read("the password for etcd", path)?;
            Ok::<_, String>((user.clone(), password.trim_end_matches(['\r', '\n']).to_owned()))
        });
        let user = user.transpose()?;
        Ok(Self { members, present: AtomicUsize::new(0), user, token: Mutex::default(), patience, lease })
    }

    /// Has etcd carry out a request, by whichever member answers first. Takes as long as one lease
    /// at most.
    ///
    /// # Errors
    /// If no member can.
    pub(crate) async fn ask(&self, ask: &Ask) -> Result<Reply, AskError> {
        let attempts = async {
            let mut last = "it has no members".to_owned();
            for _ in 0..=self.members.len() {
                let index = self.present.load(Ordering::Relaxed) % self.members.len();
                let Some(member) = self.members.get(index) else { break };
                let channel = member.channel();
                let failed = match tokio::time::timeout(self.patience, self.attempt(&channel, ask)).await {
                    Ok(Ok(reply)) => return Ok(reply),
                    Ok(Err(status)) if status.code() == Code::NotFound => return Err(AskError::NoLease),
                    Ok(Err(status)) if is_final(&status) => {
                        return Err(AskError::Refused(status.message().to_owned()));
                    }
                    Ok(Err(status)) => causes(&status),
                    Err(_) => {
                        member.reconnect();
                        "no answer in time".to_owned()
                    }
                };
                last = format!("{}: {failed}", member.address);
                // Unless another request has moved on meanwhile.
                let next = (index + 1) % self.members.len();
                let order = Ordering::Relaxed;
                let _ = self.present.compare_exchange(index, next, order, order);
            }
            Err(AskError::Silent(last))
        };
        let longest = self.lease;
        let late = || AskError::Silent("no member answered in time".to_owned());
        tokio::time::timeout(longest, attempts).await.unwrap_or_else(|_| Err(late()))
    }

    async fn attempt(&self, channel: &Channel, ask: &Ask) -> Result<Reply, Status> {
        let token = self.authenticated(channel).await?;
        let done = call(channel, token, ask).await;
        if done.as_ref().is_err_and(|status| status.code() == Code::Unauthenticated || is_final(status)) {
            // The token has expired, or users have changed: the next attempt gets another one.
            *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        done
    }

    /// The token of the user, if there is one.
    async fn authenticated(&self, channel: &Channel) -> Result<Option<MetadataValue<Ascii>>, Status> {
        let Some((name, password)) = &self.user else { return Ok(None) };
        let known = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if known.is_some() {
            return Ok(known);
        }
        let request = AuthenticateRequest { name: name.clone(), password: password.clone() };
        let answer = AuthClient::new(channel.clone()).authenticate(request).await?.into_inner();
        let token: MetadataValue<Ascii> =
            answer.token.parse().map_err(|_| Status::internal("etcd's token is not text"))?;
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        Ok(Some(token))
    }
}

/// Returns whether no other member would answer otherwise.
fn is_final(status: &Status) -> bool {
    matches!(status.code(), Code::InvalidArgument | Code::PermissionDenied)
}

async fn call(channel: &Channel, token: Option<MetadataValue<Ascii>>, ask: &Ask) -> Result<Reply, Status> {
    let show = move |mut request: Request<()>| {
        // A member that has lost its cluster says so instead of waiting.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &token {
            request.metadata_mut().insert("token", token.clone());
        }
        Ok(request)
    };
    let channel = channel.clone();
    match ask {
        Ask::Range(request) => {
            let mut client =
                KvClient::with_interceptor(channel, show).max_decoding_message_size(LARGEST_ANSWER);
            Ok(Reply::Range(client.range(request.clone()).await?.into_inner()))
        }
        Ask::Txn(request) => {
            let mut client = KvClient::with_interceptor(channel, show);
            Ok(Reply::Txn(client.txn(request.clone()).await?.into_inner()))
        }
        Ask::Grant(request) => {
            let mut client = LeaseClient::with_interceptor(channel, show);
            Ok(Reply::Granted(client.lease_grant(*request).await?.into_inner()))
        }
        Ask::Revoke(request) => {
            LeaseClient::with_interceptor(channel, show).lease_revoke(*request).await?;
            Ok(Reply::Revoked)
        }
        Ask::KeepAlive(request) => {
            let mut client = LeaseClient::with_interceptor(channel, show);
            Ok(Reply::KeptAlive(keep_alive(client.lease_keep_alive(once(*request)).await?).await?))
        }
    }
}

fn once(request: LeaseKeepAliveRequest) -> tokio_stream::Once<LeaseKeepAliveRequest> {
    tokio_stream::once(request)
}

async fn keep_alive(
    answers: tonic::Response<tonic::Streaming<LeaseKeepAliveResponse>>,
) -> Result<LeaseKeepAliveResponse, Status> {
    let answer = answers.into_inner().message().await?;
    answer.ok_or_else(|| Status::unavailable("etcd has ended the stream"))
}
