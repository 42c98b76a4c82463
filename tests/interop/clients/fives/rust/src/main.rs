//! RocketMQ's client in Rust for release 5, for tests of the server. A line of stdin is a JSON
//! object whose "do" names the work; the answer is a line of JSON, with "error" where the work
//! failed. Ends with stdin. The programs in the other languages take the same lines.

mod consuming;
mod producing;

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::time::Duration;

use rocketmq::conf::ClientOption;
use serde::Deserialize;
use serde_json::{json, Value};
use tokio::io::{stdin, stdout, AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::runtime::Runtime;

use consuming::Simple;
use producing::{Asked, Producing};

type Failed = Box<dyn Error + Send + Sync>;

const AWAIT: Duration = Duration::from_secs(6);

/// One line of the tests; what a kind of work does not need is left out.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Work {
    r#do: String,
    name: String,
    endpoints: String,
    namespace: String,
    access_key: String,
    secret_key: String,
    tls: bool,
    topics: Vec<String>,
    checks: bool,
    messages: Vec<Asked>,
    group: String,
    topic: String,
    expression: String,
    sql: String,
    count: usize,
    ms: u64,
    ack: bool,
    invisible_s: u64,
    change_s: u64,
}

#[derive(Default)]
struct Program {
    option: ClientOption,
    producers: HashMap<String, Producing>,
    simples: HashMap<String, Simple>,
}

fn main() -> Result<(), Failed> {
    // The client trusts the system's certificates, or those of this variable.
    if let Ok(file) = env::var("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH") {
        env::set_var("SSL_CERT_FILE", file);
    }
    Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), Failed> {
    let mut here = Program::default();
    let mut lines = BufReader::new(stdin()).lines();
    let mut answers = stdout();
    while let Some(line) = lines.next_line().await? {
        let found = match here.line(&line).await {
            Ok(found) => found,
            Err(error) => json!({"error": error.to_string()}),
        };
        answers.write_all(format!("{found}\n").as_bytes()).await?;
        answers.flush().await?;
    }
    here.end().await;
    Ok(())
}

impl Program {
    async fn line(&mut self, line: &str) -> Result<Value, Failed> {
        let todo: Work = serde_json::from_str(line)?;
        match todo.r#do.as_str() {
            "begin" => self.begin(todo)?,
            "producer" => {
                let made = Producing::start(self.option.clone(), &todo).await?;
                self.producers.insert(todo.name, made);
            }
            "send" => {
                let sent = self.producer(&todo.name)?.send(todo.messages).await;
                return Ok(json!({ "sent": sent }));
            }
            "checked" => {
                let producer = self.producer(&todo.name)?;
                return Ok(json!({"checked": producer.checked(todo.count, todo.ms).await}));
            }
            "simple" => {
                let made = Simple::start(self.option.clone(), &todo).await?;
                self.simples.insert(todo.name, made);
            }
            "receive" => {
                let simple = self.simples.get(&todo.name).ok_or("no such consumer")?;
                return Ok(json!({"taken": simple.receive(&todo).await?}));
            }
            "stop" => self.stop(&todo.name).await?,
            _ => return Err(format!("unknown work: {line}").into()),
        }
        Ok(json!({}))
    }

    fn begin(&mut self, todo: Work) -> Result<(), Failed> {
        if !todo.namespace.is_empty() {
            return Err("this client has no option for a namespace".into());
        }
        self.option = ClientOption::default();
        self.option.set_access_url(todo.endpoints);
        self.option.set_enable_tls(todo.tls);
        self.option.set_long_polling_timeout(AWAIT);
        if !todo.access_key.is_empty() {
            self.option.set_access_key(todo.access_key);
            self.option.set_secret_key(todo.secret_key);
        }
        Ok(())
    }

    fn producer(&self, name: &str) -> Result<&Producing, Failed> {
        Ok(self.producers.get(name).ok_or("no such producer")?)
    }

    async fn stop(&mut self, name: &str) -> Result<(), Failed> {
        if let Some(client) = self.simples.remove(name) {
            return client.stop().await;
        }
        let client = self.producers.remove(name).ok_or("no such client")?;
        client.stop().await
    }

    async fn end(&mut self) {
        let names = self.simples.keys().chain(self.producers.keys());
        for name in names.cloned().collect::<Vec<_>>() {
            let _ = self.stop(&name).await;
        }
    }
}
