//! A web server on loopback. It keeps each request byte for byte, and answers by a script.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::{ServerConnection, StreamOwned};

use super::wire;

/// A request as it came over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The request line, such as `POST / HTTP/1.1`.
    pub line: String,
    /// The headers by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
    /// The number of its connection, from 0.
    pub connection: usize,
}

/// The server's answer to a request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// This status, with a short body if it may have one.
    Status(u16),
    /// This status, after which the connection is closed without notice.
    StatusAndClose(u16),
    /// These bytes. The connection stays open.
    Bytes(String),
    /// This status, and an endless body.
    Endless(u16),
    /// This status and the announcement of a body, but no body.
    Stalled(u16),
    /// Nothing. The connection stays open.
    Silence,
    /// Nothing. The connection is closed.
    Close,
    /// This status, after a while.
    Late(Duration, u16),
}

/// The server, which runs as long as the test.
#[derive(Debug, Clone)]
pub struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Request>>>,
    connections: Arc<Mutex<usize>>,
}

type Script = Arc<dyn Fn(usize, &Request) -> Answer + Send + Sync>;

impl Server {
    /// Starts a server that answers every request with this status.
    pub fn answering(status: u16) -> Self {
        Self::scripted(move |_| Answer::Status(status))
    }

    /// Starts a server that answers by the number of the request, from 0.
    pub fn scripted(script: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        Self::start(Arc::new(move |number, _: &Request| script(number)), Some)
    }

    /// Starts a server that answers by the request.
    pub fn asked(script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::start(Arc::new(move |_, request: &Request| script(request)), Some)
    }

    /// Starts a server with TLS. `chain` and `key` are PEM.
    pub fn with_tls(chain: &str, key: &str, status: u16) -> Self {
        let config = wire::tls(chain, key);
        Self::start(Arc::new(move |_, _: &Request| Answer::Status(status)), move |mut stream| {
            let mut tls = ServerConnection::new(Arc::clone(&config)).unwrap();
            // A client that does not trust the certificate ends the handshake.
            while tls.is_handshaking() {
                tls.complete_io(&mut stream).ok()?;
            }
            Some(StreamOwned::new(tls, stream))
        })
    }

    fn start<S: Read + Write>(
        script: Script,
        wrap: impl Fn(TcpStream) -> Option<S> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            seen: Arc::default(),
            connections: Arc::default(),
        };
        let (running, wrap) = (server.clone(), Arc::new(wrap));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { continue };
                let connection = {
                    let mut connections = running.connections.lock().unwrap_or_else(PoisonError::into_inner);
                    *connections += 1;
                    *connections - 1
                };
                let (running, wrap, script) = (running.clone(), Arc::clone(&wrap), Arc::clone(&script));
                std::thread::spawn(move || {
                    if let Some(stream) = wrap(stream) {
                        running.serve(connection, stream, &script);
                    }
                });
            }
        });
        server
    }

    /// Returns its URL with this host, without a path.
    pub fn url_of(&self, scheme: &str, host: &str) -> String {
        format!("{scheme}://{host}:{}", self.address.port())
    }

    /// Returns `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        self.url_of("http", "127.0.0.1")
    }

    /// Returns every request so far.
    pub fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> usize {
        *self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, connection: usize, stream: impl Read + Write, script: &Script) {
        let mut stream = BufReader::new(stream);
        while let Some(request) = read(&mut stream, connection) {
            let stream = stream.get_mut();
            let number = {
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.push(request.clone());
                seen.len() - 1
            };
            let answer = match script(number, &request) {
                Answer::Late(time, status) => {
                    std::thread::sleep(time);
                    Answer::Status(status)
                }
                other => other,
            };
            match answer {
                Answer::Status(204) => put(stream, "HTTP/1.1 204 No Content\r\n\r\n"),
                Answer::Status(status) | Answer::Late(_, status) => {
                    put(stream, &format!("HTTP/1.1 {status} Status\r\nContent-Length: 2\r\n\r\nok"));
                }
                Answer::StatusAndClose(status) => {
                    put(stream, &format!("HTTP/1.1 {status} Status\r\nContent-Length: 2\r\n\r\nok"));
                    return;
                }
                Answer::Bytes(bytes) => put(stream, &bytes),
                Answer::Endless(status) => {
                    put(stream, &format!("HTTP/1.1 {status} Status\r\n\r\n"));
                    while stream.write_all(&[b'x'; 1024]).is_ok() {}
                    return;
                }
                Answer::Stalled(status) => {
                    put(stream, &format!("HTTP/1.1 {status} Status\r\nContent-Length: 9\r\n\r\nok"));
                    wait_for_end(stream);
                    return;
                }
                Answer::Silence => {
                    wait_for_end(stream);
                    return;
                }
                Answer::Close => return,
            }
        }
    }
}

fn put(stream: &mut impl Write, text: &str) {
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
}

fn wait_for_end(stream: &mut impl Read) {
    while stream.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
}

/// Reads the next request, or `None` at the end of the connection.
fn read(stream: &mut impl BufRead, connection: usize) -> Option<Request> {
    let raw = wire::read(stream, |_| {})?;
    let mut headers = BTreeMap::new();
    for (name, value) in raw.headers {
        assert_eq!(headers.insert(name.clone(), value), None, "{name} twice");
    }
    Some(Request { line: raw.line, headers, body: String::from_utf8(raw.body).unwrap(), connection })
}
