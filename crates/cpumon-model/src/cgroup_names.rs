//! What the path of a cgroup says: service, container and pod. Container engines and systemd have no common form, so each layout
//! is recognised by itself; the tests have a path of each.

use std::borrow::Cow;

/// Digits of a container's id that are shown, as its engine's tools do.
const SHOWN_DIGITS: usize = 12;
/// Component of the path of a cgroup outside of the reader's cgroup namespace: one level up. What the levels are called is not known.
const OUTSIDE: &str = "..";

/// Names that are in a cgroup path; empty where there is none.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupNames<'a> {
    service: &'a str,
    container: &'a str,
    pod: &'a str,
}

impl<'a> CgroupNames<'a> {
    /// The names in a path: of several containers or units one inside the other, the innermost.
    pub fn of(path: &'a str) -> Self {
        let mut found = Self::default();
        let (mut parent, mut above) = ("", "");
        for part in path.split('/').filter(|part| !part.is_empty()) {
            if let Some(pod) = pod(part, parent) {
                found.pod = pod;
            }
            if let Some(container) = container(part, parent, above) {
                found.container = container;
                // A unit that starts nothing but this container has it right below; of others it is the engine's, or a whole session.
                if !is_service_or_scope(parent) || part.contains(':') {
                    found.service = "";
                }
            }
            let is_manager = part == "init.scope" && found != Self::default();
            if is_service_or_scope(part) && !is_engines(part) && !is_manager {
                found.service = watcher(part).unwrap_or(part);
            }
            (parent, above) = (part, parent);
        }
        found
    }

    /// How much a path says, to compare those of several hierarchies: a container is more than a unit, and a unit more than a path.
    pub fn rank(path: &str) -> u8 {
        let names = CgroupNames::of(path);
        let says =
            [path.len() > 1, !names.service.is_empty(), !names.pod.is_empty(), !names.container.is_empty()];
        says.iter().rev().fold(0, |rank, says| rank << 1 | u8::from(*says))
    }

    /// systemd unit: a service or a scope.
    pub fn service(&self) -> Cow<'a, str> {
        unescape(self.service)
    }

    /// Container: its name (LXC, nspawn), or the first digits of its id.
    pub fn container(&self) -> Cow<'a, str> {
        unescape(self.container)
    }

    /// Kubernetes pod: its uid, which is all that a cgroup has; of Podman the first digits of its id.
    pub fn pod(&self) -> Cow<'a, str> {
        // In names of slices a dash separates levels, so a uid has underscores there.
        if self.pod.contains('_') { self.pod.replace('_', "-").into() } else { self.pod.into() }
    }

    /// The container; without one, the systemd unit.
    pub fn container_or_service(&self) -> Cow<'a, str> {
        if self.container.is_empty() { self.service() } else { self.container() }
    }
}

/// Slices do not count: they only contain services and scopes.
fn is_service_or_scope(part: &str) -> bool {
    matches!(part.rsplit_once('.'), Some((name, "service" | "scope")) if !name.is_empty())
}

/// Whether the scope is a container, which its engine named by the container's id.
fn is_engines(part: &str) -> bool {
    part.strip_suffix(".scope").is_some() && container(part, "", "").is_some()
}

/// Name of the program that watches one container, without the container's id: `libpod-conmon-ID.scope` gives `libpod-conmon`.
fn watcher(part: &str) -> Option<&str> {
    let id = part.strip_suffix(".scope")?.rsplit_once("-conmon-")?.1;
    part.get(..part.len() - id.len() - "-.scope".len()).filter(|_| id.len() == 64 && is_hex(id))
}

/// `parent` is the path component before `part`, `above` the one before `parent`.
fn container<'a>(part: &'a str, parent: &str, above: &str) -> Option<&'a str> {
    // LXC, LXD and Incus: `/lxc.payload.web`, `/lxc.payload/web`, and `/lxc/web` on cgroup v1.
    if let Some(name) = part.strip_prefix("lxc.payload.") {
        return Some(name);
    }
    if matches!(parent, "lxc" | "lxc.payload") {
        return Some(part);
    }
    // systemd-nspawn, from the command line and as a service.
    if let Some(name) = part.strip_prefix("machine-").and_then(|name| name.strip_suffix(".scope")) {
        return Some(name);
    }
    if let Some(name) = part.strip_prefix("systemd-nspawn@").and_then(|name| name.strip_suffix(".service")) {
        return Some(name);
    }
    // Garden of Cloud Foundry, which may separate those that use more than their share.
    let is_divided = matches!(part, "good" | "bad");
    if (parent == "garden" && !is_divided) || (above == "garden" && matches!(parent, "good" | "bad")) {
        return Some(part);
    }
    // Tasks of ECS: `/ecs/TASK/TASK-NUMBER`, `/ecstasks/TASK-NUMBER`, or seen from another container. Nothing is cut off: the number
    // distinguishes the task's containers.
    if let Some((task, number)) = part.split_once('-')
        && (matches!(parent, "ecstasks" | OUTSIDE) || above == "ecs" || (above == OUTSIDE && parent == task))
        && task.len() == 32
        && is_hex(task)
        && !number.is_empty()
        && number.bytes().all(|b| b.is_ascii_digit())
    {
        return Some(part);
    }
    // BuildKit, whose ids are 25 digits and small letters.
    if let Some(id) = build(part, parent) {
        return id.get(..SHOWN_DIGITS);
    }
    // conmon watches a container, and is not in it.
    if part.contains("-conmon-") {
        return None;
    }
    // `docker-ID.scope`, `cri-containerd-ID.scope`, `libpod-ID.scope`, `…:cri-containerd:ID`, `kata_ID`, or a bare id. Container engines
    // name a container by 256 bits in hex; shorter hex may be part of any name.
    let stem = part.strip_suffix(".scope").unwrap_or(part);
    let id = stem.rsplit(['-', ':']).next()?;
    let id = id.strip_prefix("kata_").unwrap_or(id);
    (is_hex(id) && id.len() == 64 && part.strip_suffix(".slice").is_none()).then(|| &id[..SHOWN_DIGITS])
}

/// The id of a build: `/docker/buildkit/ID`, `/system.slice/docker-buildkit-ID.scope`, `/buildkit/ID`.
fn build<'a>(part: &'a str, parent: &str) -> Option<&'a str> {
    let id =
        if parent == "buildkit" { part } else { part.strip_suffix(".scope")?.split_once("buildkit-")?.1 };
    (id.len() == 25 && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())).then_some(id)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// `kubepods-burstable-podUID.slice`, also behind a prefix of the kubelet, `podUID` below `/kubepods`, and Podman's
/// `machine-libpod_pod_ID.slice`.
fn pod<'a>(part: &'a str, parent: &str) -> Option<&'a str> {
    let stem = part.split(':').next()?;
    let stem = stem.strip_suffix(".slice").unwrap_or(stem);
    if let Some((_, id)) = stem.split_once("libpod_pod_") {
        return (id.len() == 64 && is_hex(id)).then(|| &id[..SHOWN_DIGITS]);
    }
    let is_below = matches!(parent, "kubepods" | "burstable" | "besteffort" | "guaranteed" | OUTSIDE);
    let uid = match stem.strip_prefix("pod").filter(|_| is_below) {
        Some(uid) => uid,
        None => stem.get(stem.find("kubepods")?..)?.split_once("-pod")?.1,
    };
    // A static pod, made from a file on the node, has a hash instead of a uid.
    let digits = uid.bytes().filter(u8::is_ascii_hexdigit).count();
    let has_others = uid.bytes().any(|b| !b.is_ascii_hexdigit() && !matches!(b, b'-' | b'_'));
    (digits == 32 && !has_others).then_some(uid)
}

/// systemd spells unusual characters of unit names as `\xNN` (systemd.unit(5)).
fn unescape(name: &str) -> Cow<'_, str> {
    if !name.contains('\\') {
        return name.into();
    }
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let code = tail.strip_prefix(b"x").and_then(|hex| hex.get(..2)).filter(|_| first == b'\\');
        let byte = code
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &tail[3..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned().into()
}

/// Whether a text is the name of a systemd unit (`systemd.unit(5)`) and not of a container: both are in the same field.
pub fn is_unit(text: &str) -> bool {
    [".service", ".scope", ".slice", ".socket", ".mount", ".swap"].iter().any(|end| text.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d";
    const SHORT: &str = "9ec39b91f3d7";
    const UID: &str = "3cac3187-5e77-11ea-9c85-2c600c7b896a";

    /// Layouts of the engines' documents and bug reports: a path (ID, UID and UID_ stand for the constants), then its service,
    /// container and pod.
    const PATHS: &[(&str, [&str; 3])] = &[
        // Docker: cgroupfs and systemd driver, rootless, a parent of its own, systemd inside, a container inside.
        ("/docker/ID", ["", "ID", ""]),
        ("/system.slice/docker-ID.scope", ["", "ID", ""]),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/docker-ID.scope", ["", "ID", ""]),
        ("/ci.slice/docker-ID.scope/system.slice/nginx.service", ["nginx.service", "ID", ""]),
        ("/batch/ID", ["", "ID", ""]),
        ("/system.slice/docker.service", ["docker.service", "", ""]),
        // Podman: rootful, rootless, cgroupfs, a service that runs a container, pods, and what watches containers.
        ("/machine.slice/libpod-ID.scope", ["", "ID", ""]),
        ("/machine.slice/libpod-ID.scope/container", ["", "ID", ""]),
        (
            "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope/container",
            ["", "ID", ""],
        ),
        ("/libpod_parent/libpod-ID", ["", "ID", ""]),
        ("/system.slice/nginx.service/libpod-payload-ID", ["nginx.service", "ID", ""]),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/nextcloud.service/libpod-payload-ID",
            ["nextcloud.service", "ID", ""],
        ),
        ("/machine.slice/machine-libpod_pod_ID.slice/libpod-ID.scope", ["", "ID", "ID"]),
        ("/machine.slice/libpod-conmon-ID.scope", ["libpod-conmon", "", ""]),
        ("/system.slice/crio-conmon-ID.scope", ["crio-conmon", "", ""]),
        ("/system.slice/x-conmon-1.scope", ["x-conmon-1.scope", "", ""]),
        // BuildKit, ECS, Garden.
        ("/docker/buildkit/qjz9b4m1x0c8v7n6l5k4j3h2g", ["", "qjz9b4m1x0c8", ""]),
        ("/system.slice/docker-buildkit-qjz9b4m1x0c8v7n6l5k4j3h2g.scope", ["", "qjz9b4m1x0c8", ""]),
        ("/docker/buildkit", ["", "", ""]),
        ("/ecs/TASK/ID", ["", "ID", ""]),
        ("/ecs/TASK/TASK-0123456789", ["", "TASK-0123456789", ""]),
        ("/ecstasks/TASK-527074092", ["", "TASK-527074092", ""]),
        ("/ecstasks/TASK-x", ["", "", ""]),
        ("/../TASK-527074092", ["", "TASK-527074092", ""]),
        ("/../../TASK/TASK-527074092", ["", "TASK-527074092", ""]),
        ("/../web-527074092", ["", "", ""]),
        ("/garden/0c28a65e-6b5c-4c4b-5c5e-2c39", ["", "0c28a65e-6b5c-4c4b-5c5e-2c39", ""]),
        ("/system.slice/garden.service/garden/good/0c28a65e-6b5c", ["", "0c28a65e-6b5c", ""]),
        ("/garden/bad", ["", "", ""]),
        // Kubernetes with containerd and CRI-O: systemd and cgroupfs driver, each class of pods, kind, static pods.
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID_.slice/cri-containerd-ID.scope",
            ["", "ID", "UID"],
        ),
        (
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podUID_.slice/crio-ID.scope",
            ["", "ID", "UID"],
        ),
        ("/kubepods.slice/kubepods-podUID_.slice/cri-containerd-ID.scope", ["", "ID", "UID"]),
        ("/kubepods.slice/kubepods-podUID_.slice/docker-ID.scope", ["", "ID", "UID"]),
        (
            "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/\
             kubelet-kubepods-besteffort-podUID_.slice/cri-containerd-ID.scope",
            ["", "ID", "UID"],
        ),
        ("/kubepods/burstable/podUID/ID", ["", "ID", "UID"]),
        ("/kubepods/besteffort/podUID/crio-ID", ["", "ID", "UID"]),
        ("/kubepods/podUID/ID", ["", "ID", "UID"]),
        ("/kubepods/burstable/podUID/kata_ID", ["", "ID", "UID"]),
        // From a container in a cgroup namespace of its own: the levels above have no names.
        ("/../../podUID/ID", ["", "ID", "UID"]),
        ("/../../../besteffort/podUID/ID", ["", "ID", "UID"]),
        ("/../../kubepods-burstable-podUID_.slice/cri-containerd-ID.scope", ["", "ID", "UID"]),
        ("/../../podcast/ID", ["", "ID", ""]),
        (
            "/system.slice/containerd.service/kubepods-burstable-podUID_.slice:cri-containerd:ID",
            ["", "ID", "UID"],
        ),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d4e5f60718293a4b5c6d7e8f9.slice",
            ["", "", "0a1b2c3d4e5f60718293a4b5c6d7e8f9"],
        ),
        // LXC, LXD, Incus, Proxmox.
        ("/lxc.payload.web", ["", "web", ""]),
        ("/lxc.payload.web/init.scope", ["", "web", ""]),
        ("/lxc.payload.web/system.slice/ssh.service", ["ssh.service", "web", ""]),
        ("/lxc.payload/web", ["", "web", ""]),
        ("/lxc/web", ["", "web", ""]),
        ("/lxc/101/ns/system.slice/postfix@-.service", ["postfix@-.service", "101", ""]),
        ("/lxc.monitor.web", ["", "", ""]),
        // systemd-nspawn and machines.
        (
            "/machine.slice/machine-a\\x2db.scope/payload/system.slice/cron.service",
            ["cron.service", "a-b", ""],
        ),
        ("/machine.slice/systemd-nspawn@web.service/payload", ["systemd-nspawn@web.service", "web", ""]),
        // Units of the system and of users.
        ("/system.slice/ssh.service", ["ssh.service", "", ""]),
        ("/system.slice/system-getty.slice/getty@tty1.service", ["getty@tty1.service", "", ""]),
        (
            "/system.slice/system-postgresql.slice/postgresql@15-main.service",
            ["postgresql@15-main.service", "", ""],
        ),
        ("/system.slice/systemd-udevd.service/udev", ["systemd-udevd.service", "", ""]),
        ("/user.slice/user-0.slice/session-3.scope", ["session-3.scope", "", ""]),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/foo.service", ["foo.service", "", ""]),
        ("/user.slice/user-1000.slice/user@1000.service/init.scope", ["user@1000.service", "", ""]),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/app-org.gnome.Terminal.slice/vte-spawn-f22f14d2.scope",
            ["vte-spawn-f22f14d2.scope", "", ""],
        ),
        ("/init.scope", ["init.scope", "", ""]),
        ("/user.slice", ["", "", ""]),
        ("/", ["", "", ""]),
        ("", ["", "", ""]),
        // Neither container nor pod.
        ("/podium/podcast.slice", ["", "", ""]),
        ("/0123456789abcdef", ["", "", ""]),
        ("/kubepods.slice/kubepods-burstable.slice", ["", "", ""]),
    ];

    fn written(text: &str, id: &str) -> String {
        text.replace("TASK", &ID[..32])
            .replace("UID_", &UID.replace('-', "_"))
            .replace("UID", UID)
            .replace("LONG", ID)
            .replace("ID", id)
    }

    #[test]
    fn every_layout_is_recognised() {
        for (path, expected) in PATHS {
            let path = written(path, ID);
            let names = CgroupNames::of(&path);
            let found = [names.service(), names.container(), names.pod()];
            assert_eq!(found, expected.map(|text| written(text, SHORT)), "{path}");
        }
    }

    #[test]
    fn what_names_a_container_says_more_than_what_names_a_unit() {
        let container = format!("/docker/{ID}");
        let pod = format!("/kubepods/pod{UID}/{ID}");
        let paths = ["", "/user.slice", "/system.slice/containerd.service", &container, &pod];
        let ranks: Vec<u8> = paths.iter().map(|path| CgroupNames::rank(path)).collect();
        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
    }

    #[test]
    fn a_container_is_shown_before_its_unit() {
        let name = |path: &str| CgroupNames::of(path).container_or_service().into_owned();
        assert_eq!(name("/lxc.payload.web/system.slice/ssh.service"), "web");
        assert_eq!(name("/system.slice/ssh.service"), "ssh.service");
    }
}
