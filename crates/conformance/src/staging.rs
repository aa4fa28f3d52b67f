//! A partition of this process, whose server takes outputs over: for tests of the layout and method `staging`.

use crate::scratch::Scratch;
use std::sync::Arc;
use thalweg_layout::{Direct, Layout};
use thalweg_partition::configuration::Configuration;
use thalweg_partition::instance::{self, Begun};
use thalweg_partition::registry::Registry;
use thalweg_partition::server::staging::Staging;
use thalweg_partition::server::{Serve, Serving};
use thalweg_remote::transport::unix;
use thalweg_store::Posix;
use thalweg_types::mutex::Mutex;

/// A partition that runs until this is dropped.
pub struct StagingServer {
    folder: Scratch,
    serving: Mutex<Option<Serving>>,
    configuration: Configuration,
}

impl StagingServer {
    /// Starts one.
    ///
    /// - `storage`: where outputs are stored; its root is `/`.
    /// - `memory`: most bytes that are held.
    ///
    /// # Panics
    /// If that fails.
    pub fn begin(storage: Arc<dyn Layout>, memory: u64) -> StagingServer {
        let folder = Scratch::new();
        let at = |name: &str| folder.join(name).display().to_string();
        let text = format!(
            "name = p\nstaging = /\nahpios_server = localhost:{}\nmetadata = localhost:{}\n",
            at("data"),
            at("names")
        );
        let file = folder.join("p.cfg");
        std::fs::write(&file, text).unwrap();
        let configuration = Configuration::read(&file).unwrap();
        instance::create(&configuration).unwrap();
        let Begun::Start(entry, _) = instance::begin(&configuration).unwrap() else { panic!("it runs already") };
        let layout = |name: &str| -> Arc<dyn Layout> {
            std::fs::create_dir(folder.join(name)).unwrap();
            Arc::new(Direct::new(Arc::new(Posix::at(folder.join(name)).unwrap())).unwrap())
        };
        let (data, names) = (Some(layout("data")), Some(layout("names")));
        let staging = Some(Staging { storage, memory, launch: None });
        let socket = instance::socket(&entry, 0);
        let listener = Arc::new(unix::listen(&socket).unwrap());
        let kill_wait = std::time::Duration::from_secs(30);
        let serve = Serve { entry: &entry, number: 0, data, names, cache: 1 << 20, staging, kill_wait };
        let serving = Serving::begin(&serve, vec![listener]).unwrap();
        let registry = Registry::at(&configuration.registry);
        instance::register(&registry, &entry, 0, socket.display().to_string(), None).unwrap();
        StagingServer { folder, serving: Mutex::new(Some(serving)), configuration }
    }

    /// The partition's configuration file.
    pub fn file(&self) -> String {
        self.folder.join("p.cfg").display().to_string()
    }

    /// Bytes that it has taken over, and those of them that are held.
    pub fn taken_and_held(&self) -> (u64, u64) {
        let staged = self.serving.lock().as_ref().and_then(Serving::staged).unwrap_or_default();
        (staged.held + staged.stored, staged.held)
    }

    /// Bytes of replies that it has sent to clients.
    pub fn sent(&self) -> u64 {
        self.serving.lock().as_ref().map_or(0, |serving| serving.traffic().sent)
    }

    /// Waits until everything is stored, and ends the server.
    ///
    /// # Panics
    /// If something could not be stored of which no client was told.
    pub fn end(self) {
        let serving = self.serving.lock().take();
        serving.unwrap().end().unwrap();
    }
}

impl Drop for StagingServer {
    fn drop(&mut self) {
        drop(self.serving.lock().take());
        let _ = instance::unregister(&Registry::at(&self.configuration.registry), "p", 0);
    }
}
