//! A connection as Python sees it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use h2::Reason;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::connection::{Connection, Event, Sizes};

const ENDED: u8 = 1;
const RESET: u8 = 2;
const DRAINED: u8 = 4;

type Shown = (u32, Option<Py<PyDict>>, Py<PyBytes>, u8);
type Found = (Vec<Shown>, Py<PyBytes>);
type Fields = Vec<(String, String)>;

#[pyclass(module = "reput_native", frozen)]
pub struct Http2Connection(Mutex<Connection>);

#[pymethods]
impl Http2Connection {
    #[new]
    fn new(streams: u32, header_size: u32, stream_window: u32, connection_window: u32) -> Self {
        let sizes = Sizes {
            streams,
            header_size,
            stream_window,
            connection_window,
        };
        Http2Connection(Mutex::new(Connection::new(&sizes)))
    }

    #[getter]
    fn is_over(&self, py: Python<'_>) -> PyResult<bool> {
        self.guarded(py, |connection| Ok(connection.is_over()))
    }

    #[getter]
    fn unsent_size(&self, py: Python<'_>) -> PyResult<usize> {
        self.guarded(py, |connection| Ok(connection.unsent_size()))
    }

    fn receive(&self, py: Python<'_>, data: &[u8]) -> PyResult<Found> {
        let found = self.guarded(py, |connection| {
            let events = connection.receive(data);
            Ok((events, connection.take_written()))
        });
        shown(py, found?)
    }

    fn flush(&self, py: Python<'_>) -> PyResult<Found> {
        let found = self.guarded(py, |connection| {
            let events = connection.drive();
            Ok((events, connection.take_written()))
        });
        shown(py, found?)
    }

    fn respond(
        &self,
        py: Python<'_>,
        stream: u32,
        headers: Fields,
        data: &[u8],
        trailers: Option<Fields>,
    ) -> PyResult<bool> {
        let headers = header_map(&headers)?;
        let trailers = trailers.as_ref().map(header_map).transpose()?;
        self.guarded(py, |connection| {
            Ok(connection.respond(stream, headers, data, trailers))
        })
    }

    fn refuse(&self, py: Python<'_>, stream: u32, status: u16, headers: Fields) -> PyResult<bool> {
        let headers = header_map(&headers)?;
        let status = StatusCode::from_u16(status)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        self.guarded(py, |connection| {
            Ok(connection.refuse(stream, status, headers))
        })
    }

    fn send(&self, py: Python<'_>, stream: u32, data: &[u8]) -> PyResult<usize> {
        self.guarded(py, |connection| Ok(connection.send(stream, data)))
    }

    fn finish(&self, py: Python<'_>, stream: u32, trailers: Fields) -> PyResult<()> {
        let trailers = header_map(&trailers)?;
        self.guarded(py, |connection| {
            connection.finish(stream, trailers);
            Ok(())
        })
    }

    fn reset(&self, py: Python<'_>, stream: u32, code: u32) -> PyResult<()> {
        self.guarded(py, |connection| {
            connection.reset(stream, Reason::from(code));
            Ok(())
        })
    }

    fn shut(&self, py: Python<'_>) -> PyResult<()> {
        self.guarded(py, |connection| {
            connection.shut();
            Ok(())
        })
    }
}

impl Http2Connection {
    /// Work on the connection. No Python code runs meanwhile, and a panic becomes a `KernelError`.
    fn guarded<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Connection) -> PyResult<T>,
    ) -> PyResult<T> {
        let mut connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = catch_unwind(AssertUnwindSafe(|| work(&mut connection)));
        drop(connection);
        found.unwrap_or_else(|_| Err(kernel_error(py)))
    }
}

fn kernel_error(py: Python<'_>) -> PyErr {
    let made = py
        .import("reput.errors")
        .and_then(|errors| errors.getattr("KernelError"))
        .and_then(|class| class.call1(("Http2Connection", "a panic")));
    made.map_or_else(
        |_| PyRuntimeError::new_err("Http2Connection: a panic"),
        PyErr::from_value,
    )
}

fn shown(py: Python<'_>, (events, written): (Vec<Event>, Vec<u8>)) -> PyResult<Found> {
    let events = events
        .into_iter()
        .map(|each| shown_event(py, each))
        .collect::<PyResult<_>>()?;
    Ok((events, PyBytes::new(py, &written).unbind()))
}

fn shown_event(py: Python<'_>, event: Event) -> PyResult<Shown> {
    let head = match &event.head {
        None => None,
        Some(head) => {
            let fields = PyDict::new(py);
            fields.set_item(":method", head.method.as_str())?;
            fields.set_item(":path", head.uri.path())?;
            for (name, value) in &head.headers {
                fields.set_item(name.as_str(), String::from_utf8_lossy(value.as_bytes()))?;
            }
            Some(fields.unbind())
        }
    };
    let news = event.news;
    let flags = (u8::from(news.is_ended) * ENDED)
        | (u8::from(news.is_reset) * RESET)
        | (u8::from(news.is_drained) * DRAINED);
    Ok((
        event.stream,
        head,
        PyBytes::new(py, &news.data).unbind(),
        flags,
    ))
}

fn header_map(fields: &Fields) -> PyResult<HeaderMap> {
    let mut found = HeaderMap::with_capacity(fields.len());
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_str(value);
        match (name, value) {
            (Ok(name), Ok(value)) => found.append(name, value),
            _ => return Err(PyValueError::new_err("a header that is not valid")),
        };
    }
    Ok(found)
}
