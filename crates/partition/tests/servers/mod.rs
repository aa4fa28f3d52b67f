//! Servers of a partition as threads of this process, over real sockets.

use std::path::PathBuf;
use std::sync::Arc;
use thalweg_layout::{Direct, Layout};
use thalweg_partition::Partition;
use thalweg_partition::configuration::Configuration;
use thalweg_partition::registry::Entry;
use thalweg_partition::server::{Serve, Serving};
use thalweg_remote::transport::Transport;
use thalweg_remote::transport::unix::{self, Socket};
use thalweg_store::{Posix, Store};
use thalweg_types::Result;

/// Settings of a test's partition.
#[derive(Clone)]
pub struct Settings {
    pub stripe: u64,
    pub servers: u32,
    pub cache: u64,
    pub unit: usize,
    pub views_in_client: bool,
    /// How clients use the servers' sockets.
    pub ways: fn(Socket) -> Socket,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            stripe: 4096,
            servers: 3,
            cache: 16 << 20,
            unit: 1 << 20,
            views_in_client: false,
            ways: |socket| socket,
        }
    }
}

/// A partition whose servers run.
pub struct Running {
    pub settings: Settings,
    pub entry: Entry,
    pub serving: Vec<Option<Serving>>,
    pub folder: tempfile::TempDir,
    pub stores: Vec<Arc<dyn Store>>,
}

fn posix(folder: PathBuf) -> Arc<dyn Store> {
    std::fs::create_dir_all(&folder).unwrap();
    Arc::new(Posix::at(folder).unwrap())
}

impl Running {
    pub fn new(settings: Settings) -> Running {
        let folder = tempfile::tempdir().unwrap();
        let stores = (0..settings.servers).map(|n| posix(folder.path().join(format!("data{n}")))).collect();
        Running::over(settings, stores, folder)
    }

    pub fn over(settings: Settings, stores: Vec<Arc<dyn Store>>, folder: tempfile::TempDir) -> Running {
        let servers: String = (0..settings.servers).map(|n| format!("ahpios_server = localhost:/data{n}\n")).collect();
        let text =
            format!("name = p\nstripe_size = {}\n{servers}metadata = localhost:/names\n", settings.stripe.max(512));
        let mut entry = Entry::new(&Configuration::parse(&text, "f", "f", folder.path()).unwrap().fixed);
        entry.stripe_size = settings.stripe;
        let mut running = Running { settings, entry, serving: Vec::new(), folder, stores };
        for n in 0..running.settings.servers {
            running.serving.push(None);
            running.start(n).unwrap();
        }
        running
    }

    pub fn socket(&self, n: u32) -> PathBuf {
        self.folder.path().join(format!("sockets/{n}.sock"))
    }

    pub fn start(&mut self, n: u32) -> Result<()> {
        let data: Arc<dyn Layout> = Arc::new(Direct::new(self.stores[n as usize].clone()).unwrap());
        let names = (n == 0)
            .then(|| -> Arc<dyn Layout> { Arc::new(Direct::new(posix(self.folder.path().join("names"))).unwrap()) });
        let serve = Serve {
            entry: &self.entry,
            number: n,
            data: Some(data),
            names,
            cache: self.settings.cache,
            staging: None,
            kill_wait: std::time::Duration::from_secs(30),
        };
        let listener = Arc::new(unix::listen(&self.socket(n)).unwrap());
        self.serving[n as usize] = Some(Serving::begin(&serve, vec![listener])?);
        Ok(())
    }

    /// As a server that is killed: nothing is written.
    pub fn kill(&mut self, n: u32) {
        drop(self.serving[n as usize].take());
    }

    pub fn client(&self) -> Partition {
        self.try_client().unwrap()
    }

    pub fn try_client(&self) -> Result<Partition> {
        let to = |n| Arc::new((self.settings.ways)(Socket::at(&self.socket(n)))) as Arc<dyn Transport>;
        let transports: Vec<Arc<dyn Transport>> = (0..self.settings.servers).map(to).collect();
        let Settings { unit, views_in_client, .. } = self.settings;
        Partition::over("partition p".into(), transports[0].clone(), transports, unit, views_in_client)
    }
}
