//! A web server on loopback, a thread per connection.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::{ServerConnection, StreamOwned};

use crate::protocol::Response;
use crate::wire::{self, Raw};

/// What the server does with a request.
#[derive(Debug)]
pub enum Reply {
    /// Answers.
    Answer(Response),
    /// Breaks the connection.
    Reset,
}

/// The server; it accepts connections until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    closed: Arc<AtomicBool>,
    connections: Arc<Mutex<BTreeMap<usize, TcpStream>>>,
}

impl Server {
    /// A server with this handler, which may take its time: every connection has its own thread.
    pub fn start(handler: impl Fn(Raw) -> Reply + Send + Sync + 'static) -> Self {
        Self::accept(move |stream| serve(stream, &handler))
    }

    /// The same with TLS; chain and key are PEM.
    pub fn start_tls(handler: impl Fn(Raw) -> Reply + Send + Sync + 'static, chain: &str, key: &str) -> Self {
        let config = wire::tls(chain, key);
        Self::accept(move |stream| {
            let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
            serve(StreamOwned::new(tls, stream), &handler);
        })
    }

    fn accept(connection: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self { address, closed: Arc::default(), connections: Arc::default() };
        let (closed, connection) = (Arc::clone(&server.closed), Arc::new(connection));
        let connections = Arc::clone(&server.connections);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                if closed.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let _ = stream.set_nodelay(true);
                if let Ok(same) = stream.try_clone() {
                    connections.lock().unwrap_or_else(PoisonError::into_inner).insert(number, same);
                }
                let (connection, connections) = (Arc::clone(&connection), Arc::clone(&connections));
                std::thread::spawn(move || {
                    connection(stream);
                    connections.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
                });
            }
        });
        server
    }

    /// Closes every connection, as a server does that was not heard of for long.
    pub fn hang_up(&self) {
        for connection in self.connections.lock().unwrap_or_else(PoisonError::into_inner).values() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// `127.0.0.1:<port>`.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        // The thread that accepts wakes up by a connection.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve<S: Read + Write>(stream: S, handler: &impl Fn(Raw) -> Reply) {
    let mut stream = BufReader::with_capacity(1 << 16, stream);
    let go_on = |stream: &mut BufReader<S>| {
        let _ = stream.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
    };
    while let Some(request) = wire::read(&mut stream, go_on) {
        match handler(request) {
            Reply::Answer(answer) if wire::write(stream.get_mut(), &answer).is_ok() => {}
            Reply::Answer(_) | Reply::Reset => return,
        }
    }
}
