//! What manifests name exists: secrets, volumes, accounts, labels, ports, files, and the options of the command line.

use crate::{BASE, Manifest, items, manifests, read, root, text, texts};
use clap::Parser;
use goodput::cli::Cli;
use goodput::plan::Plan;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// A pod, or the template of one.
struct Pod<'a> {
    /// Name of the manifest.
    name: &'a str,
    labels: &'a Value,
    spec: &'a Value,
}

impl<'a> Pod<'a> {
    /// Returns the containers, those that run first included.
    fn containers(&self) -> impl Iterator<Item = &'a Value> {
        items(&self.spec["initContainers"]).iter().chain(items(&self.spec["containers"]))
    }

    /// Returns the container that runs goodput.
    fn goodput(&self) -> Option<&'a Value> {
        self.containers().find(|c| text(&c["image"]).starts_with("goodput:"))
    }

    /// Returns the variable of this name in the container of goodput.
    fn variable(&self, name: &str) -> &'a Value {
        let all = items(&self.goodput().unwrap()["env"]);
        all.iter().find(|e| e["name"] == name).unwrap_or_else(|| panic!("{} has no {name}", self.name))
    }
}

fn pods<'a>(manifests: &'a [Manifest]) -> Vec<Pod<'a>> {
    let pod = |manifest: &'a Manifest| {
        let part = match manifest.kind() {
            "Pod" => &manifest.value,
            "Job" | "Deployment" => &manifest.value["spec"]["template"],
            _ => return None,
        };
        Some(Pod { name: manifest.name(), labels: &part["metadata"]["labels"], spec: &part["spec"] })
    };
    manifests.iter().filter_map(pod).collect()
}

fn pod<'a>(manifests: &'a [Manifest], name: &str) -> Pod<'a> {
    pods(manifests).into_iter().find(|pod| pod.name == name).unwrap_or_else(|| panic!("no {name}"))
}

fn manifest<'a>(manifests: &'a [Manifest], kind: &str, name: &str) -> &'a Value {
    let found = manifests.iter().find(|m| m.kind() == kind && m.name() == name);
    &found.unwrap_or_else(|| panic!("no {kind} {name}")).value
}

/// Returns the secrets that the documentation says how to create, with their keys.
fn secrets_to_create() -> BTreeMap<String, BTreeSet<String>> {
    let commands = format!("{}\n{}", read("docs/scale-out.md"), read("deploy/job.yaml")).replace("\\\n", " ");
    let mut secrets: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in commands.lines() {
        let line = line.trim_start_matches(['#', ' ']);
        let Some(rest) = line.strip_prefix("kubectl create secret generic ") else { continue };
        let mut words = rest.split_whitespace();
        let keys = secrets.entry(words.next().unwrap().to_owned()).or_default();
        for word in words {
            let key = word.strip_prefix("--from-literal=").or_else(|| word.strip_prefix("--from-file="));
            keys.extend(key.map(|k| k.split_once('=').map_or(k, |(name, _)| name).to_owned()));
        }
    }
    secrets
}

/// Returns the config maps of kustomize's generator, each with its files.
fn generated() -> BTreeMap<String, Vec<String>> {
    let value: Value = serde_saphyr::from_str(&read(&format!("{BASE}/kustomization.yaml"))).unwrap();
    let maps = items(&value["configMapGenerator"]).iter();
    let owned = |files: &Value| texts(files).into_iter().map(str::to_owned).collect();
    maps.map(|map| (text(&map["name"]).to_owned(), owned(&map["files"]))).collect()
}

#[test]
fn the_base_lists_its_files() {
    let value: Value = serde_saphyr::from_str(&read(&format!("{BASE}/kustomization.yaml"))).unwrap();
    let mut listed: BTreeSet<String> = texts(&value["resources"]).into_iter().map(str::to_owned).collect();
    listed.extend(generated().into_values().flatten());
    listed.insert("kustomization.yaml".to_owned());
    let names = fs::read_dir(root().join(BASE)).unwrap();
    let present: BTreeSet<String> = names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(listed, present, "{BASE}/kustomization.yaml (left) is not what the folder holds (right)");
}

#[test]
fn what_a_pod_uses_is_defined_or_said_to_be_created() {
    let all = manifests("deploy");
    let mut defined: BTreeSet<(&str, &str)> = all.iter().map(|m| (m.kind(), m.name())).collect();
    let generated = generated();
    defined.extend(generated.keys().map(|name| ("ConfigMap", name.as_str())));
    let secrets = secrets_to_create();
    let has_key = |secret: &Value, key: &Value| {
        assert!(
            secrets.get(text(secret)).is_some_and(|keys| keys.contains(text(key))),
            "no command makes {key} of the secret {secret}"
        );
    };
    for pod in pods(&all) {
        let account = text(&pod.spec["serviceAccountName"]);
        assert!(account.is_empty() || defined.contains(&("ServiceAccount", account)), "{account}");
        let volumes = items(&pod.spec["volumes"]);
        for volume in volumes {
            for (kind, name) in [
                ("ConfigMap", &volume["configMap"]["name"]),
                ("PersistentVolumeClaim", &volume["persistentVolumeClaim"]["claimName"]),
            ] {
                assert!(name.is_null() || defined.contains(&(kind, text(name))), "{}: {volume}", pod.name);
            }
            let secret = &volume["secret"];
            items(&secret["items"]).iter().for_each(|item| has_key(&secret["secretName"], &item["key"]));
        }
        let mut mounted = BTreeSet::new();
        for container in pod.containers() {
            mounted.extend(items(&container["volumeMounts"]).iter().map(|mount| text(&mount["name"])));
            for variable in items(&container["env"]) {
                let secret = &variable["valueFrom"]["secretKeyRef"];
                if !secret.is_null() {
                    has_key(&secret["name"], &secret["key"]);
                }
            }
        }
        let declared: BTreeSet<&str> = volumes.iter().map(|volume| text(&volume["name"])).collect();
        assert_eq!(mounted, declared, "{}: volumes that are mounted (left) and declared (right)", pod.name);
    }
}

/// Returns true if a selector selects pods with these labels. It knows the operator `In` only.
fn selects(selector: &Value, labels: &Value) -> bool {
    let mut equal = selector["matchLabels"].as_object().into_iter().flatten();
    let expressions = items(&selector["matchExpressions"]);
    equal.all(|(key, value)| labels[key] == *value)
        && expressions.iter().all(|e| {
            assert_eq!(e["operator"], "In");
            texts(&e["values"]).contains(&text(&labels[text(&e["key"])]))
        })
}

#[test]
fn selectors_select_the_pods_that_they_are_for() {
    let all = manifests("deploy");
    let selected = |selector: &Value| {
        pods(&all).iter().filter(|pod| selects(selector, pod.labels)).map(|pod| pod.name).collect::<Vec<_>>()
    };
    let (bus, clients) = (vec!["goodput-bus"], vec!["goodput-leader", "goodput-worker"]);
    assert_eq!(selected(&manifest(&all, "Deployment", "goodput-bus")["spec"]["selector"]), bus);
    let service = &manifest(&all, "Service", "goodput-bus")["spec"];
    assert_eq!(selected(&serde_json::json!({ "matchLabels": service["selector"] })), bus);
    let policy = &manifest(&all, "NetworkPolicy", "goodput-bus")["spec"];
    assert_eq!(selected(&policy["podSelector"]), bus);
    let [rule] = items(&policy["ingress"]) else { panic!("{policy}") };
    let [from] = items(&rule["from"]) else { panic!("{rule}") };
    assert_eq!(selected(&from["podSelector"]), clients);
    let closed = &manifest(&all, "NetworkPolicy", "goodput-clients")["spec"];
    assert_eq!(selected(&closed["podSelector"]), clients);
    assert!(closed["ingress"].is_null() && texts(&closed["policyTypes"]) == ["Ingress"]);
    let [spread] = items(&pod(&all, "goodput-worker").spec["topologySpreadConstraints"]) else {
        panic!("no spread")
    };
    assert_eq!(selected(&spread["labelSelector"]), ["goodput-worker"]);
}

#[test]
fn the_bus_is_where_its_clients_look_for_it() {
    let all = manifests(BASE);
    let bus = pod(&all, "goodput-bus");
    let [nats] = items(&bus.spec["containers"]) else { panic!("one container") };
    let ports: BTreeMap<&str, &Value> =
        items(&nats["ports"]).iter().map(|port| (text(&port["name"]), &port["containerPort"])).collect();
    let config = read(&format!("{BASE}/nats.conf"));
    assert!(config.contains(&format!("\nport: {}\n", ports["bus"])));
    for variable in items(&nats["env"]) {
        assert!(config.contains(&format!("password: ${}\n", text(&variable["name"]))), "{variable}");
    }
    let command = texts(&nats["command"]);
    assert_eq!(option(&command, "--http_port"), ports["health"].to_string());
    for probe in ["readinessProbe", "livenessProbe"] {
        assert_eq!(nats[probe]["httpGet"]["port"], "health");
    }
    assert!(command.contains(&"--tls"));
    let mounts: BTreeSet<&str> = items(&nats["volumeMounts"]).iter().map(|m| text(&m["mountPath"])).collect();
    for (name, file) in [("--config", "nats.conf"), ("--tlscert", "tls.crt"), ("--tlskey", "tls.key")] {
        let (folder, named) = option(&command, name).rsplit_once('/').unwrap();
        assert!(mounts.contains(folder) && named == file, "{name}");
    }

    let [port] = items(&manifest(&all, "Service", "goodput-bus")["spec"]["ports"]) else {
        panic!("one port")
    };
    assert_eq!(port["targetPort"], "bus");
    let rule = &manifest(&all, "NetworkPolicy", "goodput-bus")["spec"]["ingress"][0]["ports"];
    assert_eq!(*rule, serde_json::json!([{ "protocol": "TCP", "port": ports["bus"] }]));
    let url = format!("tls://goodput-bus:{}", port["port"]);
    for name in ["leader", "worker"] {
        let pod = pod(&all, &format!("goodput-{name}"));
        let args = texts(&pod.goodput().unwrap()["args"]);
        assert_eq!(option(&args, "--bus"), url);
        assert_eq!(option(&args, "--bus-ca"), "/bus/ca.crt");
        assert_eq!(pod.variable("GOODPUT_BUS_USER")["value"], name);
        let password = &pod.variable("GOODPUT_BUS_PASSWORD")["valueFrom"]["secretKeyRef"];
        assert_eq!(
            *password,
            serde_json::json!({ "name": "goodput-bus", "key": format!("{name}-password") })
        );
        // The variables that Kubernetes makes of the Service's name would be taken for those of goodput.
        assert_eq!(pod.spec["enableServiceLinks"], false);
        let [wait] = items(&pod.spec["initContainers"]) else { panic!("{name} does not wait for the bus") };
        assert!(texts(&wait["command"])[2].contains(&format!("goodput-bus {}", port["port"])));
    }
}

/// Returns the value of an option among arguments.
fn option<'a>(args: &[&'a str], name: &str) -> &'a str {
    let at = args.iter().position(|arg| *arg == name).unwrap_or_else(|| panic!("no {name} in {args:?}"));
    args[at + 1]
}

#[test]
fn containers_run_what_the_command_takes() {
    let all = manifests("deploy");
    let manifest_toml: toml::Table = toml::from_str(&read("Cargo.toml")).unwrap();
    let image = format!("goodput:{}", manifest_toml["workspace"]["package"]["version"].as_str().unwrap());
    let mut commands = Vec::new();
    for pod in pods(&all) {
        let Some(container) = pod.goodput() else { continue };
        assert_eq!(container["image"], image.as_str(), "{}", pod.name);
        let args = texts(&container["args"]);
        if let Err(e) = Cli::try_parse_from(["goodput"].iter().chain(&args)) {
            panic!("{}: {e}", pod.name);
        }
        commands.push((pod.name, args[0]));
        let resources = &container["resources"];
        assert_eq!(
            resources["requests"], resources["limits"],
            "{}: else other pods take its cores",
            pod.name
        );
        let cpu = text(&resources["limits"]["cpu"]);
        assert!(cpu.bytes().all(|b| b.is_ascii_digit()), "{}: {cpu} is not whole cores", pod.name);
    }
    let expected = [("goodput", "sweep"), ("goodput-leader", "sweep"), ("goodput-worker", "worker")];
    assert_eq!(commands, expected);
}

#[test]
fn the_leader_expects_as_many_workers_as_there_are() {
    let all = manifests(BASE);
    let job = &manifest(&all, "Job", "goodput-worker")["spec"];
    let leader = pod(&all, "goodput-leader");
    let args = texts(&leader.goodput().unwrap()["args"]);
    assert_eq!(option(&args, "--expect"), job["completions"].to_string());
    assert_eq!(job["completions"], job["parallelism"], "workers that start later are of no use");
    assert_eq!(job["backoffLimitPerIndex"], 0);
    // The overlay in the documentation changes it by its position.
    let at = args.iter().position(|arg| *arg == "--expect").unwrap() + 1;
    let path = format!("/spec/template/spec/containers/0/args/{at},");
    assert!(read("docs/scale-out.md").contains(&path), "docs/scale-out.md has another place than {path}");
}

#[test]
fn the_plan_of_the_base_runs_with_what_the_pods_have() {
    let all = manifests(BASE);
    let plan = Plan::from_text(&read(&format!("{BASE}/plan.toml"))).unwrap();
    assert!(plan.measured_server().to_string().contains(".svc.cluster.local"));
    assert!(toml::to_string(&plan).unwrap().contains("api-key-env = \"OPENAI_API_KEY\""));
    for name in ["goodput-leader", "goodput-worker"] {
        assert!(pod(&all, name).variable("OPENAI_API_KEY")["valueFrom"].is_object());
    }
    let leader = pod(&all, "goodput-leader");
    let args = texts(&leader.goodput().unwrap()["args"]);
    let (folder, file) = args[1].rsplit_once('/').unwrap();
    let mount = items(&leader.goodput().unwrap()["volumeMounts"]).iter().find(|m| m["mountPath"] == folder);
    let volume = items(&leader.spec["volumes"]).iter().find(|v| v["name"] == mount.unwrap()["name"]).unwrap();
    assert_eq!(generated()[text(&volume["configMap"]["name"])], [file]);
}
