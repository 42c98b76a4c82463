//! The fields of a `reput.Message`, read where they stand in the object.
//!
//! Python code that runs in between could change a message, so none runs: fields of other than
//! built-in types are not asked anything, and such a message is Python's to put.

use std::net::Ipv4Addr;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString, PyTuple, PyType};
use pyo3::{Borrowed, ffi};

use crate::encode::decline::Decline;
use crate::encode::layout::{BORN_HOST_V6, HOST_SIZE, STORE_HOST_V6};

const FIELDS: usize = 12;
const HOSTS_V6: i32 = BORN_HOST_V6 | STORE_HOST_V6;

/// Where the fields of an object of exactly this class are, in bytes from its beginning.
struct MessageClass {
    class: Py<PyType>,
    places: [usize; FIELDS],
}

static MESSAGE: PyOnceLock<Option<MessageClass>> = PyOnceLock::new();

/// A message's fields, in the order in which the class declares them; borrowed from the message.
pub struct Fields<'a, 'py>([Borrowed<'a, 'py, PyAny>; FIELDS]);

/// The numbers of a message, each within its field of the record.
#[derive(Clone, Copy)]
pub struct Numbers {
    pub queue_id: i32,
    pub flag: i32,
    pub sys_flag: i32,
    pub reconsume_times: i32,
    pub prepared_transaction_offset: i64,
    /// The store time where it is `None`.
    pub born_timestamp: Option<i64>,
    /// The store's host where it is `None`.
    pub born_host: Option<[u8; HOST_SIZE]>,
}

impl Numbers {
    /// Whether a record can have these numbers as they are.
    #[inline]
    pub fn checked(self) -> Result<Self, Decline> {
        let is_usual = self.queue_id >= 0 && self.sys_flag & HOSTS_V6 == 0;
        is_usual.then_some(self).ok_or(Decline::ToPython)
    }
}

impl<'a, 'py> Fields<'a, 'py> {
    /// The fields of `message`; not of an object of any other class, a derived one included.
    #[inline]
    pub fn of(message: &'a Bound<'py, PyAny>) -> Result<Self, Decline> {
        Self::read(message).ok_or(Decline::ToPython)
    }

    #[inline]
    fn read(message: &'a Bound<'py, PyAny>) -> Option<Self> {
        let py = message.py();
        let known = MESSAGE.get(py)?.as_ref()?;
        if message.get_type_ptr().cast() != known.class.as_ptr() {
            return None;
        }
        let mut fields = [None; FIELDS];
        for (field, place) in fields.iter_mut().zip(known.places) {
            // SAFETY: the class has slots, so in each object of exactly this class a field is a
            // pointer at this place, null if the field was deleted. While the interpreter lock is
            // held and no Python code runs, the message keeps what it refers to.
            *field = unsafe {
                let slot = message.as_ptr().cast::<u8>().add(place);
                Borrowed::from_ptr_or_opt(py, slot.cast::<*mut ffi::PyObject>().read())
            };
            (*field)?;
        }
        // All are there; the first stands in for what cannot be.
        let first = fields[0]?;
        Some(Self(fields.map(|field| field.unwrap_or(first))))
    }

    #[inline]
    pub fn topic(&self) -> Borrowed<'a, 'py, PyAny> {
        self.0[0]
    }

    #[inline]
    pub fn body(&self) -> Borrowed<'a, 'py, PyAny> {
        self.0[1]
    }

    #[inline]
    pub fn queue_id(&self) -> Borrowed<'a, 'py, PyAny> {
        self.0[2]
    }

    #[inline]
    pub fn tags(&self) -> Borrowed<'a, 'py, PyAny> {
        self.0[3]
    }

    #[inline]
    pub fn keys(&self) -> Borrowed<'a, 'py, PyAny> {
        self.0[4]
    }

    #[inline]
    pub fn properties(&self) -> Borrowed<'a, 'py, PyAny> {
        self.0[5]
    }

    /// The numbers, if each is a plain one and fits.
    #[inline]
    pub fn numbers(&self) -> Result<Numbers, Decline> {
        let (born, host) = (self.0[8], self.0[9]);
        let numbers = Numbers {
            queue_id: narrow(self.0[2])?,
            flag: narrow(self.0[6])?,
            sys_flag: narrow(self.0[7])?,
            born_timestamp: if born.is_none() {
                None
            } else {
                Some(integer(born)?)
            },
            born_host: if host.is_none() {
                None
            } else {
                Some(packed_host(host)?)
            },
            reconsume_times: narrow(self.0[10])?,
            prepared_transaction_offset: integer(self.0[11])?,
        };
        numbers.checked()
    }
}

/// Find the fields of the class, before a message is looked at: it is Python code that finds them.
pub fn load_class(py: Python<'_>) -> PyResult<()> {
    MESSAGE.get_or_try_init(py, || MessageClass::find(py))?;
    Ok(())
}

impl MessageClass {
    /// Find the places by making a message of objects that are nowhere else, and looking for them.
    fn find(py: Python<'_>) -> PyResult<Option<Self>> {
        let class = py
            .import("reput.record.messages.message")?
            .getattr("Message")?;
        let object = py.import("builtins")?.getattr("object")?;
        let objects = (0..FIELDS)
            .map(|_| object.call0())
            .collect::<PyResult<Vec<_>>>()?;
        let message = class.call1(PyTuple::new(py, &objects)?)?;
        let size: usize = class.getattr("__basicsize__")?.extract()?;
        let word = size_of::<*mut ffi::PyObject>();
        let mut places = [0; FIELDS];
        for (place, field) in places.iter_mut().zip(&objects) {
            let is_field = |at: &usize| {
                // SAFETY: an object has at least the bytes that its class states, and `at` is a
                // multiple of a word's size below them.
                let found = unsafe {
                    message
                        .as_ptr()
                        .cast::<u8>()
                        .add(*at)
                        .cast::<usize>()
                        .read()
                };
                found == field.as_ptr() as usize
            };
            let mut found = (1..size / word).map(|at| at * word).filter(is_field);
            let (Some(first), None) = (found.next(), found.next()) else {
                return Ok(None);
            };
            *place = first;
        }
        let class = class.cast_into::<PyType>()?.unbind();
        Ok(Some(Self { class, places }))
    }
}

/// An exact `int` of 64 bits.
#[inline]
pub fn integer(value: Borrowed<'_, '_, PyAny>) -> Result<i64, Decline> {
    // SAFETY: both take any object; the second does not run Python code for an exact int.
    unsafe {
        if ffi::PyLong_CheckExact(value.as_ptr()) == 0 {
            return Err(Decline::ToPython);
        }
        let found = ffi::PyLong_AsLongLong(value.as_ptr());
        if found == -1 && !ffi::PyErr_Occurred().is_null() {
            ffi::PyErr_Clear();
            return Err(Decline::ToPython);
        }
        Ok(found)
    }
}

/// Likewise of 32 bits.
#[inline]
fn narrow(value: Borrowed<'_, '_, PyAny>) -> Result<i32, Decline> {
    i32::try_from(integer(value)?).map_err(|_| Decline::ToPython)
}

/// The UTF-8 of an exact `str`; not of text that has no UTF-8.
#[inline]
pub fn text<'a>(value: Borrowed<'a, '_, PyAny>) -> Result<&'a str, Decline> {
    if !value.is_exact_instance_of::<PyString>() {
        return Err(Decline::ToPython);
    }
    let mut size = 0;
    // SAFETY: a text keeps its UTF-8, whose size is told, as long as it lives, which is `'a`.
    unsafe {
        let begin = ffi::PyUnicode_AsUTF8AndSize(value.as_ptr(), &raw mut size);
        if begin.is_null() {
            ffi::PyErr_Clear();
            return Err(Decline::ToPython);
        }
        let size = usize::try_from(size).map_err(|_| Decline::ToPython)?;
        let utf8 = std::slice::from_raw_parts(begin.cast(), size);
        Ok(std::str::from_utf8_unchecked(utf8))
    }
}

/// The bytes of an exact `bytes`.
#[inline]
pub fn bytes<'a>(value: Borrowed<'a, '_, PyAny>) -> Result<&'a [u8], Decline> {
    if !value.is_exact_instance_of::<PyBytes>() {
        return Err(Decline::ToPython);
    }
    // SAFETY: its bytes stay as they are as long as it lives, which is `'a`.
    unsafe {
        let begin = ffi::PyBytes_AsString(value.as_ptr());
        let size = usize::try_from(ffi::PyBytes_Size(value.as_ptr()));
        let size = size.map_err(|_| Decline::ToPython)?;
        Ok(std::slice::from_raw_parts(begin.cast(), size))
    }
}

/// See `reput.record.ids.pack_host`; only of a pair of an IPv4 address and a port.
fn packed_host(host: Borrowed<'_, '_, PyAny>) -> Result<[u8; HOST_SIZE], Decline> {
    let pair = host.cast_exact::<PyTuple>();
    let pair = pair.map_err(|_| Decline::ToPython)?;
    let part = |place| {
        let part = pair.get_borrowed_item(place);
        part.map_err(|_| Decline::ToPython)
    };
    if pair.len() != 2 {
        return Err(Decline::ToPython);
    }
    let (address, port) = (part(0)?, part(1)?);
    let address: Ipv4Addr = text(address)?.parse().map_err(|_| Decline::ToPython)?;
    let port = u16::try_from(integer(port)?).map_err(|_| Decline::ToPython)?;
    let mut packed = [0; HOST_SIZE];
    packed[..4].copy_from_slice(&address.octets());
    packed[4..].copy_from_slice(&i32::from(port).to_be_bytes());
    Ok(packed)
}
