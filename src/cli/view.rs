//! Arguments of `view`.

use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Arguments of `view`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  goodput view runs                              an index of runs/, with the trend of the goodput
  goodput view runs/demo --listen 127.0.0.1:0    one run, on a free port

The pages change nothing. Only run folders below DIR are served; links are not followed.")]
pub struct ViewArgs {
    /// Run folder, or folder of runs. Folders of `sweep --repeat` in it are opened too.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Address to serve the pages at. Port 0 picks a free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8090")]
    pub listen: SocketAddr,
}
