//! Which parts of command lines are hidden, and which are not.

use proptest::prelude::*;

use super::*;

fn scrubbed(arguments: &[&str]) -> String {
    let mut text = String::new();
    scrub_cmdline((arguments.join("\0") + "\0").as_bytes(), &mut text);
    text
}

#[test]
fn secrets_are_hidden() {
    for (arguments, shown) in [
        (&["mysqld", "--password=hunter2"][..], "mysqld --password=***"),
        (&["x", "--password", "hunter2", "-v"], "x --password *** -v"),
        (&["x", "--api-key", "hunter2"], "x --api-key ***"),
        (&["env", "DB_PASSWORD=hunter2", "run"], "env DB_PASSWORD=*** run"),
        (&["env", "AWS_SECRET_ACCESS_KEY=hunter2"], "env AWS_SECRET_ACCESS_KEY=***"),
        (&["psql", "postgres://bob:hunter2@db/x?sslmode=off"], "psql postgres://bob:***@db/x?sslmode=off"),
        (&["git", "clone", "https://hunter2@github.com/x"], "git clone https://***@github.com/x"),
        (&["curl", "-H", "Authorization: Bearer hunter2"], "curl -H Authorization: ***"),
        (&["curl", "http://h/?a=1&token=hunter2"], "curl http://h/?a=1&token=***"),
        (&["curl", "-d", "{\"password\":\"hunter2\"}"], "curl -d {\"password\":***"),
        (&["sh", "-c", "TOKEN=hunter2 exec serve"], "sh -c TOKEN=***"),
        (&["x", "--password=hunter2 hunter2"], "x --password=***"),
        (&["x", "--token=", "hunter2"], "x --token= ***"),
        (&["java", "-Ddb.pwd=hunter2"], "java -Ddb.pwd=***"),
        (&["sshpass", "-p", "hunter2", "ssh", "bob@h"], "sshpass -p *** ssh bob@h"),
        (&["sshpass", "-phunter2", "ssh"], "sshpass -p*** ssh"),
        (&["/usr/bin/mysqldump", "-u", "bob", "-phunter2", "x"], "/usr/bin/mysqldump -u bob -p*** x"),
        (&["sudo", "mariadb", "-phunter2"], "sudo mariadb -p***"),
        (&["redis-cli", "-a", "hunter2", "ping"], "redis-cli -a *** ping"),
        (&["curl", "-u", "bob:hunter2", "http://h/"], "curl -u bob:*** http://h/"),
        (&["curl", "--proxy-user", "bob:hunter2"], "curl --proxy-user bob:***"),
        (&["curl", "-H", "X-Auth-Of-Mine; Bearer hunter2"], "curl -H X-Auth-Of-Mine; Bearer ***"),
        (&["x", "AKIAIOSFODNN7EXAMPLE"], "x ***"),
        (&["gh", "ghp_0123456789abcdefghijhunter2abcdefghi"], "gh ***"),
    ] {
        assert_eq!(scrubbed(arguments), shown);
    }
}

#[test]
fn secrets_that_were_missed_are_hidden() {
    let long = "0123456789abcdefghijklmnopqrstuvwxyz0123456789";
    let known = |begin: &str| vec!["x".to_owned(), format!("{begin}{long}")];
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for (arguments, shown) in [
        (words("curl -ubob:hunter2 h"), "curl -ubob:*** h"),
        (words("curl -sSubob:hunter2 h"), "curl -sSubob:*** h"),
        (words("curl -su bob:hunter2 h"), "curl -su bob:*** h"),
        (words("curl --user=bob:hunter2 h"), "curl --user=bob:*** h"),
        (words("curl --proxy-user=bob:hunter2"), "curl --proxy-user=bob:***"),
        (words("docker login -u bob -p hunter2"), "docker login -u bob -p ***"),
        (words("sudo docker login -phunter2 r"), "sudo docker login -p*** r"),
        (words("7z x -phunter2 a.7z"), "7z x -p*** a.7z"),
        (words("unzip -P hunter2 a.zip"), "unzip -P *** a.zip"),
        (words("zip -Phunter2 a.zip"), "zip -P*** a.zip"),
        (words("smbclient -U bob%hunter2 //h/s"), "smbclient -U bob%*** //h/s"),
        (words("smbclient -UDOM\\bob%hunter2"), "smbclient -UDOM\\bob%***"),
        (words("smbclient --user=bob%hunter2"), "smbclient --user=bob%***"),
        (words("ssh-keygen -N hunter2 -f k"), "ssh-keygen -N *** -f k"),
        (words("ssh-keygen -p -P hunter2"), "ssh-keygen -p -P ***"),
        (words("x AccountName=a;AccountKey=hunter2=="), "x AccountName=a;AccountKey=***"),
        (words("azcopy https://a/b?sv=1&sig=hunter2"), "azcopy https://a/b?sv=1&sig=***"),
        (words("curl https://s3/x?X-Amz-Signature=hunter2"), "curl https://s3/x?X-Amz-Signature=***"),
        (words("wpa psk=hunter2"), "wpa psk=***"),
        (words("x --pswd=hunter2"), "x --pswd=***"),
        (words("x --passcode hunter2"), "x --passcode ***"),
        (words("x --password --hunter2 y"), "x --password *** y"),
        (words("x --token --password hunter2"), "x --token *** ***"),
        (words("x --password --pw hunter2"), "x --password *** ***"),
        (known("AIza"), "x ***"),
        (known("npm_"), "x ***"),
        (known("xapp-1-"), "x ***"),
        (known("cpumon1."), "x ***"),
        (known("cpumon-login_"), "x ***"),
        (known("cpumon-key1."), "x ***"),
        (known("--google=AIza"), "x --google=***"),
        (known("https://h/download/ghp_"), "x https://h/download/***"),
        (known("\u{e4},npm_"), "x \u{e4},***"),
        (words("curl https://hooks.slack.com/services/T0/B0/hunter2"), "curl https://hooks.slack.com/***"),
        (
            words("curl https://discord.com/api/webhooks/1/hunter2"),
            "curl https://discord.com/api/webhooks/***",
        ),
        (words("kubectl create --from-literal=db=hunter2"), "kubectl create --from-literal=***"),
        (words("kubectl create --from-literal db=hunter2"), "kubectl create --from-literal ***"),
        (vec!["x".into(), "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END".into(), "y".into()], "x *** y"),
        (words("x -----BEGIN RSA KEY-----hunter2 hunter2 -----END y"), "x *** *** *** *** *** y"),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        assert_eq!(scrubbed(&arguments), shown);
    }
}

#[test]
fn what_is_no_secret_stays() {
    for arguments in [
        &["vim", "/etc/passwd"][..],
        &["setxkbmap", "--keyboard=us"],
        &["curl", "http://host:8080/path?x=1"],
        &["git", "commit", "--author=bob"],
        &["ssh", "bob@host"],
        &["server", "--port", "80", "--monkey=1"],
        &["x", "--verbose-tokenless"][..1],
        &["ssh", "-p", "22", "bob@host"],
        &["mkdir", "-p", "a/b"],
        &["mysql", "-u", "bob", "-h", "db"],
        &["curl", "-u", "bob"],
        &["python", "sk-learn.py", "AKIA", "eyJ"],
        &["java", "-url=http://h:80/x"],
        &["curl", "-sSo", "out:1", "http://h/"],
        &["date", "-u", "+%s"],
        &["git", "-c", "user.name=bob", "log"],
        &["hx", "hooks.rs", "npm_scripts", "https://slack.com/services/x"],
    ] {
        assert_eq!(scrubbed(arguments), arguments.join(" "));
    }
}

proptest! {
    #[test]
    fn any_bytes_do(raw in prop::collection::vec(any::<u8>(), 0..300)) {
        scrub_cmdline(&raw, &mut String::new());
    }

    #[test]
    fn a_password_never_shows(before in "[ -~]{0,20}", after in "[ -~]{0,20}") {
        let text = scrubbed(&[&before, "--password=hunter2", &after]);
        prop_assert!(!text.contains("hunter2"), "{text}");
    }
}
