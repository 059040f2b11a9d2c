//! Connections on which no answer is endless.
//!
//! HTTP lets a server write as many interim answers (1xx) as it likes, and the client reads them all before anybody
//! else has a turn. Nothing that a server sends is read for longer than [`BYTES_PER_TURN`], or beyond [`MAX_UNASKED_BYTES`].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::TryFutureExt;
use futures_util::future::MapOk;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower_service::Service;

/// The most bytes that are read between two requests: the longest head of an answer, 400 KiB, and some before it.
const MAX_UNASKED_BYTES: usize = 512 * 1024;

/// The most bytes that are read before others have a turn.
const BYTES_PER_TURN: usize = 4 * 1024;

/// A connector whose connections read no endless answer. It counts plain text, so it belongs around TLS.
#[derive(Clone)]
pub(crate) struct BoundedConnector<C>(pub(crate) C);

/// Such a connection.
pub(crate) struct BoundedStream<S> {
    inner: TokioIo<S>,
    /// The bytes read since the last request.
    received: usize,
    /// The bytes read since others had a turn.
    in_turn: usize,
}

impl<S> BoundedStream<S> {
    fn around(inner: S) -> TokioIo<Self> {
        TokioIo::new(Self { inner: TokioIo::new(inner), received: 0, in_turn: 0 })
    }

    /// Takes over that a part of a request was written. While a server takes nothing, what it answers goes on counting.
    fn wrote(&mut self, bytes: usize) -> Poll<io::Result<usize>> {
        if bytes > 0 {
            self.received = 0;
        }
        Poll::Ready(Ok(bytes))
    }
}

impl<C: Service<Uri>> Service<Uri> for BoundedConnector<C> {
    type Response = TokioIo<BoundedStream<C::Response>>;
    type Error = C::Error;
    type Future = MapOk<C::Future, fn(C::Response) -> Self::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        self.0.call(uri).map_ok(BoundedStream::around)
    }
}

impl<S: Connection> Connection for BoundedStream<S> {
    fn connected(&self) -> Connected {
        self.inner.inner().connected()
    }
}

impl<S> AsyncRead for BoundedStream<S>
where
    S: Unpin,
    TokioIo<S>: AsyncRead,
{
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.received >= MAX_UNASKED_BYTES {
            return Poll::Ready(Err(io::Error::other("the answer is too long")));
        }
        if self.in_turn >= BYTES_PER_TURN {
            self.in_turn = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut bytes = [0; BYTES_PER_TURN];
        let room = buffer.remaining().min(BYTES_PER_TURN);
        let mut read = ReadBuf::new(&mut bytes[..room]);
        ready!(Pin::new(&mut self.inner).poll_read(context, &mut read))?;
        buffer.put_slice(read.filled());
        self.received += read.filled().len();
        self.in_turn += read.filled().len();
        Poll::Ready(Ok(()))
    }
}

impl<S> AsyncWrite for BoundedStream<S>
where
    S: Unpin,
    TokioIo<S>: AsyncWrite,
{
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(context, bytes))?;
        self.wrote(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write_vectored(context, slices))?;
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
