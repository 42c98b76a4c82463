//! The fields of a `reput.Message`, read where they stand in the object.
//!
//! Python code that runs in between could change a message, so none runs: fields of other than
//! built-in types are not asked anything, and such a message is Python's to put.

use std::net::Ipv4Addr;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple, PyType};
use pyo3::{Borrowed, ffi};

use crate::shared::decline::{Decline, declined_unless};
use crate::shared::layout::{BORN_HOST_V6, HOST_SIZE, STORE_HOST_V6};

const FIELDS: usize = 12;
const HOSTS_V6: i32 = BORN_HOST_V6 | STORE_HOST_V6;

/// In the place of a queue: the queues of the topic take turns.
pub const NO_QUEUE: i32 = -1;

/// Where the fields of an object of exactly this class are, in bytes from its beginning.
struct MessageClass {
    class: Py<PyType>,
    places: [usize; FIELDS],
}

static MESSAGE: PyOnceLock<Option<MessageClass>> = PyOnceLock::new();

/// A message's fields, in the order in which the class declares them; borrowed from the message.
pub struct Fields<'a, 'py> {
    pub topic: Borrowed<'a, 'py, PyAny>,
    pub body: Borrowed<'a, 'py, PyAny>,
    pub queue_id: Borrowed<'a, 'py, PyAny>,
    pub tags: Borrowed<'a, 'py, PyAny>,
    pub keys: Borrowed<'a, 'py, PyAny>,
    pub properties: Borrowed<'a, 'py, PyAny>,
    /// Flag, system flag, born timestamp and host, reconsume times, prepared transaction offset.
    numbers: [Borrowed<'a, 'py, PyAny>; 6],
}

/// The numbers of a message, each within its field of the record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers {
    /// `NO_QUEUE` where it is `None`.
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
        declined_unless(self.sys_flag & HOSTS_V6 == 0)?;
        Ok(self)
    }
}

/// A queue that is given, or `NO_QUEUE`.
#[inline]
pub fn queue_or_none(queue_id: Option<i64>) -> Result<i32, Decline> {
    queue_id.map_or(Ok(NO_QUEUE), |queue_id| {
        let queue_id = i32::try_from(queue_id).map_err(|_| Decline::ToPython)?;
        declined_unless(queue_id >= 0)?;
        Ok(queue_id)
    })
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
        let [topic, body, queue_id, tags, keys, properties, numbers @ ..] = fields;
        // All are there; the topic stands in for what cannot be.
        let topic = topic?;
        Some(Self {
            topic,
            body: body?,
            queue_id: queue_id?,
            tags: tags?,
            keys: keys?,
            properties: properties?,
            numbers: numbers.map(|field| field.unwrap_or(topic)),
        })
    }

    /// The numbers, if each is a plain one and fits.
    #[inline]
    pub fn numbers(&self) -> Result<Numbers, Decline> {
        let [flag, sys_flag, born, host, reconsume, prepared] = self.numbers;
        let numbers = Numbers {
            queue_id: queue_or_none(given(self.queue_id).map(integer).transpose()?)?,
            flag: narrow(flag)?,
            sys_flag: narrow(sys_flag)?,
            born_timestamp: given(born).map(integer).transpose()?,
            born_host: given(host).map(packed_host).transpose()?,
            reconsume_times: narrow(reconsume)?,
            prepared_transaction_offset: integer(prepared)?,
        };
        numbers.checked()
    }
}

/// The numbers of the message before, which are most often the same objects.
///
/// For messages that are all kept while no Python code runs: so no other object gets their places.
#[derive(Default)]
pub struct NumbersBefore {
    objects: Option<[*mut ffi::PyObject; 6]>,
    numbers: Numbers,
}

impl NumbersBefore {
    #[inline]
    pub fn of(&mut self, fields: &Fields<'_, '_>) -> Result<Numbers, Decline> {
        let objects = Some(fields.numbers.map(|number| number.as_ptr()));
        if objects != self.objects {
            (self.numbers, self.objects) = (fields.numbers()?, objects);
        }
        Ok(Numbers {
            queue_id: queue_or_none(given(fields.queue_id).map(integer).transpose()?)?,
            ..self.numbers
        })
    }
}

/// A value, unless it is None.
#[inline]
fn given<'a, 'py>(value: Borrowed<'a, 'py, PyAny>) -> Option<Borrowed<'a, 'py, PyAny>> {
    (!value.is_none()).then_some(value)
}

/// Messages in a list; of a list or a tuple of them.
pub fn list_of<'py>(messages: &Bound<'py, PyAny>) -> Result<Bound<'py, PyList>, Decline> {
    if let Ok(messages) = messages.cast_exact::<PyTuple>() {
        return Ok(messages.to_list());
    }
    let messages = messages.cast_exact::<PyList>();
    messages.cloned().map_err(|_| Decline::ToPython)
}

/// Find the fields of the class, before a message is looked at: it is Python code that finds them.
pub fn load_class(py: Python<'_>) -> PyResult<()> {
    MESSAGE.get_or_try_init(py, || MessageClass::find(py))?;
    Ok(())
}

/// What a list has at a place. It is the list's, which changes only where Python code runs.
#[inline]
pub fn item<'a, 'py>(
    list: &'a Bound<'py, PyList>,
    place: usize,
) -> Result<Borrowed<'a, 'py, PyAny>, Decline> {
    // SAFETY: the list keeps what it has there. It is null, with an error, where nothing is.
    unsafe {
        let found = ffi::PyList_GetItem(list.as_ptr(), place as ffi::Py_ssize_t);
        Borrowed::from_ptr_or_opt(list.py(), found).ok_or_else(|| {
            ffi::PyErr_Clear();
            Decline::ToPython
        })
    }
}

/// Names and values of a dict. They are the dict's, which changes only where Python code runs.
pub fn items<'a, 'py>(
    dict: Borrowed<'a, 'py, PyDict>,
) -> impl Iterator<Item = [Borrowed<'a, 'py, PyAny>; 2]> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (mut name, mut value) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: `at` is what the call before has set, and the dict keeps what it finds.
        unsafe {
            let found = ffi::PyDict_Next(dict.as_ptr(), &raw mut at, &raw mut name, &raw mut value);
            (found != 0).then(|| [name, value].map(|each| Borrowed::from_ptr(dict.py(), each)))
        }
    })
}

impl MessageClass {
    /// Find the places by making a message of objects that are nowhere else, and looking for them.
    fn find(py: Python<'_>) -> PyResult<Option<Self>> {
        let class = py
            .import("reput.record.messages.message")?
            .getattr("Message")?;
        let object = py.import("builtins")?.getattr("object")?;
        let objects = (0..FIELDS).map(|_| object.call0());
        let objects = objects.collect::<PyResult<Vec<_>>>()?;
        let message = class.call1(PyTuple::new(py, &objects)?)?;
        let size: usize = class.getattr("__basicsize__")?.extract()?;
        let begin = message.as_ptr().cast::<u8>();
        let word = size_of::<*mut ffi::PyObject>();
        let mut places = [0; FIELDS];
        for (place, field) in places.iter_mut().zip(&objects) {
            let is_field = |at: &usize| {
                // SAFETY: an object has at least the bytes that its class states, and `at` is a
                // multiple of a word's size below them.
                let found = unsafe { begin.add(*at).cast::<usize>().read() };
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
        declined_unless(ffi::PyLong_CheckExact(value.as_ptr()) != 0)?;
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
    declined_unless(value.is_exact_instance_of::<PyString>())?;
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

/// Likewise; `None` for None.
#[inline]
pub fn text_given<'a>(value: Borrowed<'a, '_, PyAny>) -> Result<Option<&'a str>, Decline> {
    given(value).map(text).transpose()
}

/// The bytes of an exact `bytes`.
#[inline]
pub fn bytes<'a>(value: Borrowed<'a, '_, PyAny>) -> Result<&'a [u8], Decline> {
    declined_unless(value.is_exact_instance_of::<PyBytes>())?;
    // SAFETY: its bytes stay as they are as long as it lives, which is `'a`.
    unsafe {
        let begin = ffi::PyBytes_AsString(value.as_ptr());
        let size = usize::try_from(ffi::PyBytes_Size(value.as_ptr()));
        let size = size.map_err(|_| Decline::ToPython)?;
        Ok(std::slice::from_raw_parts(begin.cast(), size))
    }
}

/// See `reput.record.messageids.pack_host`; only of a pair of an IPv4 address and a port.
pub fn packed_host(host: Borrowed<'_, '_, PyAny>) -> Result<[u8; HOST_SIZE], Decline> {
    let pair = host.cast_exact::<PyTuple>();
    let pair = pair.map_err(|_| Decline::ToPython)?;
    let part = |place| {
        let part = pair.get_borrowed_item(place);
        part.map_err(|_| Decline::ToPython)
    };
    declined_unless(pair.len() == 2)?;
    let (address, port) = (part(0)?, part(1)?);
    let address: Ipv4Addr = text(address)?.parse().map_err(|_| Decline::ToPython)?;
    let port = u16::try_from(integer(port)?).map_err(|_| Decline::ToPython)?;
    let mut packed = [0; HOST_SIZE];
    packed[..4].copy_from_slice(&address.octets());
    packed[4..].copy_from_slice(&i32::from(port).to_be_bytes());
    Ok(packed)
}
