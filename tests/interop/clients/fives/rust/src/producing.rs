use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocketmq::conf::{ClientOption, ProducerOption};
use rocketmq::model::message::{Message, MessageBuilder};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::Producer;
use serde::Deserialize;
use serde_json::{json, Value};
use tokio::time::{sleep, Instant};

use crate::consuming::row;
use crate::{Failed, Work};

/// A message as the tests write it.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Asked {
    topic: String,
    body: String,
    tag: String,
    keys: Vec<String>,
    properties: HashMap<String, String>,
    message_group: String,
    delay_s: u64,
    end: String,
}

impl Asked {
    fn message(self) -> Result<impl Message, Failed> {
        let mut made = MessageBuilder::builder()
            .set_topic(self.topic)
            .set_body(self.body.into_bytes())
            .set_keys(self.keys)
            .set_properties(self.properties);
        if !self.tag.is_empty() {
            made = made.set_tag(self.tag);
        }
        if !self.message_group.is_empty() {
            made = made.set_message_group(self.message_group);
        }
        if self.delay_s != 0 {
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
            made = made.set_delivery_timestamp(i64::try_from(now + self.delay_s)?);
        }
        if !self.end.is_empty() {
            made = made.enable_transaction();
        }
        Ok(made.build()?)
    }
}

/// A producer, which commits each transaction that it is asked for.
pub struct Producing {
    producer: Producer,
    checked: Arc<Mutex<Vec<Value>>>,
}

impl Producing {
    pub async fn start(client: ClientOption, todo: &Work) -> Result<Self, Failed> {
        let mut option = ProducerOption::default();
        option.set_topics(todo.topics.clone());
        let checked = Arc::new(Mutex::new(Vec::new()));
        let mut producer = if todo.checks {
            let noted = Arc::clone(&checked);
            let check = move |_, message| {
                noted.lock().unwrap().push(row(&message));
                TransactionResolution::COMMIT
            };
            Producer::new_transaction_producer(option, client, Box::new(check))?
        } else {
            Producer::new(option, client)?
        };
        producer.start().await?;
        Ok(Self { producer, checked })
    }

    pub async fn send(&self, messages: Vec<Asked>) -> Vec<Value> {
        let mut sent = Vec::new();
        for each in messages {
            sent.push(match self.send_one(each).await {
                Ok(id) => json!({ "id": id }),
                Err(error) => json!({"error": error.to_string()}),
            });
        }
        sent
    }

    async fn send_one(&self, todo: Asked) -> Result<String, Failed> {
        let end = todo.end.clone();
        let message = todo.message()?;
        if end.is_empty() {
            return Ok(self.producer.send(message).await?.message_id().to_owned());
        }
        let transaction = self.producer.send_transaction_message(message).await?;
        let id = transaction.message_id().to_owned();
        match end.as_str() {
            "commit" => transaction.commit().await?,
            "rollback" => transaction.rollback().await?,
            _ => {}
        }
        Ok(id)
    }

    /// Returns all half messages asked for, once that are `count` or the time is over.
    pub async fn checked(&self, count: usize, ms: u64) -> Vec<Value> {
        let end = Instant::now() + Duration::from_millis(ms);
        loop {
            let found = self.checked.lock().unwrap().clone();
            if found.len() >= count || Instant::now() > end {
                return found;
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn stop(self) -> Result<(), Failed> {
        Ok(self.producer.shutdown().await?)
    }
}
