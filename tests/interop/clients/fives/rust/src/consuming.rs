use std::time::Duration;

use rocketmq::conf::{ClientOption, SimpleConsumerOption};
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::MessageView;
use rocketmq::SimpleConsumer;
use serde_json::{json, Value};
use tokio::time::Instant;

use crate::{Failed, Work};

/// A consumer that asks for messages.
pub struct Simple {
    consumer: SimpleConsumer,
    topic: String,
    filter: FilterExpression,
}

impl Simple {
    pub async fn start(client: ClientOption, todo: &Work) -> Result<Self, Failed> {
        let mut option = SimpleConsumerOption::default();
        option.set_consumer_group(&todo.group);
        option.set_topics(vec![&todo.topic]);
        let mut consumer = SimpleConsumer::new(option, client)?;
        consumer.start().await?;
        let filter = if !todo.sql.is_empty() {
            FilterExpression::new(FilterType::Sql, &todo.sql)
        } else if !todo.expression.is_empty() {
            FilterExpression::new(FilterType::Tag, &todo.expression)
        } else {
            FilterExpression::new(FilterType::Tag, "*")
        };
        let topic = todo.topic.clone();
        Ok(Self {
            consumer,
            topic,
            filter,
        })
    }

    /// Takes messages until there are as many as are wanted or the time is over.
    pub async fn receive(&self, todo: &Work) -> Result<Vec<Value>, Failed> {
        if todo.change_s != 0 {
            return Err("this client cannot change the invisible duration".into());
        }
        let end = Instant::now() + Duration::from_millis(todo.ms);
        let invisible = Duration::from_secs(todo.invisible_s);
        let mut rows = Vec::new();
        while rows.len() < todo.count && Instant::now() < end {
            let asked = self
                .consumer
                .receive_with(&self.topic, &self.filter, 16, invisible);
            for each in asked.await? {
                if todo.ack {
                    self.consumer.ack(&each).await?;
                }
                rows.push(row(&each));
            }
        }
        Ok(rows)
    }

    pub async fn stop(self) -> Result<(), Failed> {
        Ok(self.consumer.shutdown().await?)
    }
}

pub fn row(message: &MessageView) -> Value {
    json!({
        "topic": message.topic(),
        "body": String::from_utf8_lossy(message.body()),
        "tag": message.tag(),
        "keys": message.keys(),
        "properties": message.properties(),
        "attempt": message.delivery_attempt(),
    })
}
