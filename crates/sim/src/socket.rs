//! The door for real processes: HTTP/1.1 on a loopback socket, a thread for each connection.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::caller::Caller;
use crate::door::TransportEnd;
use crate::protocol::{WireRequest, WireResponse};
use crate::world::SimAws;

/// The time after which a hanging connection checks whether it may end.
const CLOSE_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A server on loopback, which accepts connections until it is dropped.
#[derive(Debug)]
pub struct SocketServer {
    address: SocketAddr,
    closed: Arc<AtomicBool>,
    accepted: Arc<AtomicUsize>,
    open: OpenSockets,
}

/// The open connections, by their numbers.
#[derive(Debug, Clone, Default)]
struct OpenSockets(Arc<Mutex<BTreeMap<usize, OpenSocket>>>);

/// A connection, as those see it who may end it.
#[derive(Debug)]
struct OpenSocket {
    stream: TcpStream,
    /// `true` if the network has forgotten it: whatever the client sends next is answered with a reset.
    forgotten: Arc<AtomicBool>,
}

impl SimAws {
    /// Serves every service to a caller on a port of loopback, which is the caller's endpoint URL.
    pub fn listen(&self, caller: &Caller) -> io::Result<SocketServer> {
        SocketServer::start(self, caller, None, None)
    }

    /// Serves every service with TLS. The certificate chain and the key are PEM. Clients that do not trust
    /// the certificate end the handshake.
    pub fn listen_tls(&self, caller: &Caller, chain: &str, key: &str) -> io::Result<SocketServer> {
        SocketServer::start(self, caller, None, Some(tls(chain, key)?))
    }

    /// Serves one web server to a caller, whatever host name the caller uses.
    pub fn listen_web(&self, caller: &Caller, host: &str) -> io::Result<SocketServer> {
        SocketServer::start(self, caller, Some(host), None)
    }

    /// Serves one web server with TLS, as [`SimAws::listen_tls`] does the services.
    pub fn listen_web_tls(
        &self,
        caller: &Caller,
        host: &str,
        chain: &str,
        key: &str,
    ) -> io::Result<SocketServer> {
        SocketServer::start(self, caller, Some(host), Some(tls(chain, key)?))
    }
}

impl SocketServer {
    fn start(
        aws: &SimAws,
        caller: &Caller,
        host: Option<&str>,
        tls: Option<Arc<ServerConfig>>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let server = Self {
            address: listener.local_addr()?,
            closed: Arc::default(),
            accepted: Arc::default(),
            open: OpenSockets::default(),
        };
        let connection = Arc::new(ConnectionContext {
            aws: aws.clone(),
            caller: caller.clone(),
            host: host.map(str::to_owned),
            closed: Arc::clone(&server.closed),
            tls,
        });
        let (accepted, open) = (Arc::clone(&server.accepted), server.open.clone());
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                if connection.closed.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                accepted.fetch_add(1, Ordering::Relaxed);
                let forgotten = Arc::new(AtomicBool::default());
                if let Ok(same) = stream.try_clone() {
                    open.all().insert(number, OpenSocket { stream: same, forgotten: Arc::clone(&forgotten) });
                }
                let (connection, open) = (Arc::clone(&connection), open.clone());
                thread::spawn(move || {
                    // A connection that breaks is up to the client.
                    connection.accept(stream, &forgotten).unwrap_or_default();
                    open.all().remove(&number);
                });
            }
        });
        Ok(server)
    }

    /// Returns `127.0.0.1:<port>`.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Returns `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the number of connections so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Closes every connection, as servers do when a client was silent for long.
    pub fn hang_up(&self) {
        for connection in self.open.all().values() {
            // A connection that is closed already is no fault.
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
    }

    /// Forgets every connection, as the network does when both sides were silent for long: the client hears
    /// nothing of it until it sends something.
    pub fn forget(&self) {
        for connection in self.open.all().values() {
            connection.forgotten.store(true, Ordering::Relaxed);
        }
    }
}

impl OpenSockets {
    fn all(&self) -> MutexGuard<'_, BTreeMap<usize, OpenSocket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SocketServer {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        // The thread that accepts wakes up by a connection.
        let _ = TcpStream::connect(self.address);
    }
}

/// The part that the connections of one server share.
struct ConnectionContext {
    aws: SimAws,
    caller: Caller,
    host: Option<String>,
    closed: Arc<AtomicBool>,
    tls: Option<Arc<ServerConfig>>,
}

impl ConnectionContext {
    fn accept(&self, stream: TcpStream, forgotten: &AtomicBool) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let raw = stream.try_clone()?;
        // Bytes that nobody reads make the kernel reset the connection when it is closed.
        let is_alive = || raw.peek(&mut [0]).is_ok() && !forgotten.load(Ordering::Relaxed);
        let Some(config) = &self.tls else { return self.serve(stream, is_alive) };
        let session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        self.serve(StreamOwned::new(session, stream), is_alive)
    }

    /// Answers requests until the client is gone, or bytes come and the connection is dead.
    fn serve(&self, stream: impl Read + Write, is_alive: impl Fn() -> bool) -> io::Result<()> {
        let mut stream = BufReader::with_capacity(1 << 16, stream);
        loop {
            if stream.buffer().is_empty() && !is_alive() {
                return Ok(());
            }
            let Some(mut request) = read(&mut stream)? else { return Ok(()) };
            if let Some(host) = &self.host {
                let path = crate::world::path_of(&request.uri);
                request.uri = format!("http://{host}{path}");
            }
            let mut begun = self.aws.begin(&self.caller, &request);
            while let Some(wait) = begun.next_wait() {
                self.sleep(wait);
            }
            let (end, took) = begun.finish();
            self.sleep(took);
            match end {
                TransportEnd::Answer(response) => {
                    write(stream.get_mut(), &response, usize::MAX)?;
                }
                TransportEnd::BreakOff(response, bytes) => return write(stream.get_mut(), &response, bytes),
                TransportEnd::Stall(response, bytes) => {
                    write(stream.get_mut(), &response, bytes)?;
                    self.sleep(Duration::MAX);
                    return Ok(());
                }
                TransportEnd::NoConnection | TransportEnd::Reset => return Ok(()),
                TransportEnd::Hang | TransportEnd::ConnectTimeout => {
                    self.sleep(Duration::MAX);
                    return Ok(());
                }
            }
        }
    }

    /// Sleeps, but only until the server or the caller is gone.
    fn sleep(&self, mut time: Duration) {
        while !time.is_zero() && !self.closed.load(Ordering::Relaxed) && !self.caller.is_gone() {
            let step = time.min(CLOSE_CHECK_INTERVAL);
            thread::sleep(step);
            time -= step;
        }
    }
}

/// Returns the TLS configuration of a server.
fn tls(chain: &str, key: &str) -> io::Result<Arc<ServerConfig>> {
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<_, _>>();
    let chain = chain.map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(io::Error::other)?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain, key);
    Ok(Arc::new(config.map_err(io::Error::other)?))
}

/// Reads the next request. Returns `None` at the end of the connection.
fn read<S: Read + Write>(stream: &mut BufReader<S>) -> io::Result<Option<WireRequest>> {
    let line = read_line(stream)?;
    let mut words = line.split(' ');
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(None) };
    let mut request = WireRequest { method: method.to_owned(), ..WireRequest::default() };
    loop {
        let header = read_line(stream)?;
        let Some((name, value)) = header.split_once(':') else { break };
        let (name, value) = (name.to_lowercase(), value.trim());
        match request.headers.iter_mut().find(|(same, _)| *same == name) {
            // Several lines are one list: <https://www.rfc-editor.org/rfc/rfc9110#section-5.3>.
            Some((_, first)) => first.extend([", ", value]),
            None => request.headers.push((name, value.to_owned())),
        }
    }
    request.uri = format!("http://{}{path}", request.header("host").unwrap_or("127.0.0.1"));
    if request.header("expect").is_some() {
        stream.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let broken = |_| io::Error::from(io::ErrorKind::InvalidData);
    if request.header("transfer-encoding").is_some_and(|it| it.contains("chunked")) {
        loop {
            let size = usize::from_str_radix(&read_line(stream)?, 16).map_err(broken)?;
            read_bytes(stream, size, &mut request.body)?;
            read_line(stream)?;
            if size == 0 {
                return Ok(Some(request));
            }
        }
    }
    let length = request.header("content-length").map_or(Ok(0), str::parse).map_err(broken)?;
    read_bytes(stream, length, &mut request.body)?;
    Ok(Some(request))
}

fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

fn read_bytes(stream: &mut impl Read, count: usize, into: &mut Vec<u8>) -> io::Result<()> {
    let start = into.len();
    into.resize(start + count, 0);
    stream.read_exact(&mut into[start..])
}

/// Writes a response, with at most so many bytes of its body.
fn write(stream: &mut impl Write, response: &WireResponse, at_most: usize) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Answer\r\n", response.status);
    for (name, value) in &response.headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    // Answers with these statuses have no body, and clients do not expect one.
    if !matches!(response.status, 204 | 304) {
        head.extend(["content-length: ", &response.body.len().to_string(), "\r\n"]);
    }
    head += "\r\n";
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&response.body[..at_most.min(response.body.len())]);
    stream.write_all(&bytes)?;
    stream.flush()
}
