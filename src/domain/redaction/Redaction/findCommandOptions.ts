import { hasDigit, hasLetter, hasSign } from "./opaque.ts"
import { isPlaceholder } from "./isPlaceholder.ts"
import { isUuid, looksRandom } from "./looksRandom.ts"
import { execFrom, execInParts } from "./execInParts.ts"
import { hasSteps, MATCHES_PER_STEP } from "./steps.ts"
import type { TextRange } from "./TextRange.ts"
import type { TextScan } from "./TextScan.ts"
import { trimTrailing } from "./trimTrailing.ts"

interface CommandForm {
  /** A text must contain one of these literals, in any case. */
  readonly words: ReadonlyArray<string>
  /** The last group that matched is the secret. */
  readonly form: RegExp
  /** A word that the matched text must contain. */
  readonly within?: string
  /** A further option of the same command, at the end of a match. */
  readonly further?: RegExp
}

/** Lengths that a form inspects before a match, and of a match. */
const EXTENT = { before: 256, reach: 2_048 }

/** A value in quotes, or up to white space. */
const VALUE = `(?:"([^"\\n]{4,256})"|'([^'\\n]{4,256})'|([^\\s"'|;&<>]{4,512}))`
/** The other arguments of one command, before the option with the secret. */
const ARGUMENTS = "(?:[^\\n|;&]{0,200}?[ \\t])??"

/** A secret after an option of a command. */
const option = (command: string, options: string): CommandForm => ({
  // Short names are also parts of words.
  words: command.split("|").map((name) => (name.length < 4 ? `${name} ` : name.replace("\\", ""))),
  form: new RegExp(`\\b(?:${command})(?:\\.exe)?[ \\t]${ARGUMENTS}(?:${options})${VALUE}`, "gi"),
  further: new RegExp(`["']?[ \\t]${ARGUMENTS}(?:${options})${VALUE}`, "iy")
})

/** Secrets in command lines and statements. */
const forms: ReadonlyArray<CommandForm> = [
  {
    words: ["--", " -", "\n-", "\t-"],
    form: /(?:^|\s)(?:--?(?:[a-z]{1,16}[-_]){0,3}(?:password|passwd|passphrase|pass|token|secret|secret-key|api-key|apikey|auth-token|access-token|access-key|authkey|license-key|client-secret|private-key|storage-key|account-key|sas-token|http-password|rp|pw)[ \t=]{1,3}|(?:-u|--user|--proxy-user|-a|--auth|-U)[ \t]{1,3}["']?[\w.@+-]{0,64}[:%](?!\/\/))["']?([^\s"']{4,512})/g
  },
  // A password in the same word as the option.
  { words: ["mysql", "mariadb"], form: /\s-p["']?((?=[^\s"']*[A-Za-z])[^\s"']{4,128})/g },
  { words: ["7z"], form: /\b7z[arz]?[ \t][^\n|;&]{0,120}?[ \t]-p["']?([^\s"']{4,128})/g },
  // Databases
  option("redis-cli|keydb-cli|valkey-cli", "-a[ \\t]{1,3}"),
  option("sqlcmd|bcp|osql|isql|impala-shell", "-P[ \\t]{0,3}"),
  option(
    "mongo|mongosh|mongodump|mongorestore|mongoexport|cqlsh|clickhouse-client|influx|neo4j-admin|cypher-shell|vsql|couchbase-cli|arangosh",
    "-p[ \\t=]{0,3}|-password[ \\t=]{1,3}"
  ),
  {
    words: ["sqlplus", "expdp", "impdp", "sqlldr", "rman "],
    form: /\b(?:sqlplus|expdp|impdp|sqlldr|rman[ \t]+target)[ \t]+(?:-[A-Za-z][ \t]+)*["']?[\w$#]{1,64}\/["']?([^\s@"'/]{4,64})/gi
  },
  // Registries, clouds and packages
  { ...option("docker|podman|buildah|skopeo|helm|oras|crane|nerdctl", "-p[ \\t=]{1,3}"), within: "login" },
  option("az|heroku|cf|bx|ibmcloud|oc|twine|doctl|scw|vault", "(?:-p|--token|--access-token|-t)[ \\t=]{1,3}"),
  {
    words: ["configure"],
    form: /\baws[ \t]+configure[ \t]+set[ \t]+[\w.-]{0,64}(?:secret|token|key)[\w.-]{0,32}[ \t]+["']?([^\s"']{16,1024})/g
  },
  {
    words: ["login", "auth", "setapikey", "unlock", "token", "http-basic"],
    form: /\b(?:vault|gh|cargo|snyk|wandb|npx?|yarn|pnpm|ngrok|railway|netlify|supabase|pulumi|terraform|flyctl|fly|sentry-cli|huggingface-cli|hf|gem|poetry|nuget|dotnet|composer|cloudflared|tailscale|infracost|doppler|op|bw|stripe|expo|eas)[ \t]+(?:[a-z][\w:./-]{0,64}[ \t]+){0,4}?(?:login|authtoken|auth|add-authtoken|setapikey|unlock|token|[\w./:-]{0,64}_?authToken|pypi-token\.\w{1,32}|http-basic\.\w{1,32}[ \t]+\w{1,32})(?:[ \t]+(?:--?\w[\w-]{0,24}[ \t=]+)?|=)["']?((?=[^\s"']*[0-9])[^\s"'|;&-][^\s"'|;&]{15,1024})/g
  },
  option("nuget|dotnet", "(?:-k|-ApiKey|--api-key)[ \\t]{1,3}"),
  // Windows
  {
    words: ["net use", "net user"],
    form: /\bnet[ \t]+use[ \t]+(?:[a-z]:|\*)?[ \t]*\\\\[^\s"']{1,200}[ \t]+(?!\/)["']?([^\s"'/][^\s"']{3,128})/gi
  },
  {
    words: ["net use", "net user"],
    form: /\bnet[ \t]+(?:use[ \t]+[^\n]{1,200}?\/u(?:ser)?:["']?[^\s"']{1,64}["']?|user[ \t]+["']?[\w.-]{1,64}["']?)[ \t]+(?!\/)["']?([^\s"'/*][^\s"']{3,128})/gi
  },
  {
    words: ["/p:", "/p ", "/pass", "/rp", "/pw"],
    form: /(?<=\b(?:cmdkey|xfreerdp|wfreerdp|mstsc|rdesktop|schtasks|wmic|runas|dsadd|msdeploy|net|sdelete|rundll32|psexec|winrs|djoin)\b[^\n|;&]{0,200})[ \t]\/(?:p|pass|password|rp|pw)[: \t][ \t]{0,3}["']?([^\s"']{4,128})/gi
  },
  option("psexec|psexec64|pspasswd|wmic|winrs|rdesktop|paexec", "[-/](?:p|password):?[ \\t]{0,3}"),
  option("plink|pscp|psftp|putty|kitty|winscp", "-pw[ \\t]{1,3}"),
  option(
    "smbclient|rpcclient|smbmap|crackmapexec|nxc|evil-winrm|rpcclient|wmiexec\\.py",
    "(?:-U[ \\t]*[\"']?[\\w.\\\\/@-]{1,64}%|-p[ \\t]{1,3}|--password[= \\t])"
  ),
  {
    words: ["securestring"],
    form: /\bConvertTo-SecureString[ \t]+(?:-\w+[ \t]+){0,3}(?:"([^"\n]{4,256})"|'([^'\n]{4,256})'|([^\s"'$()-][^\s"']{3,256}))/gi
  },
  {
    words: ["networkcredential", "pscredential"],
    form: /\b(?:NetworkCredential|PSCredential)\s{0,3}\(\s{0,3}["'][^"'\n]{1,128}["']\s{0,3},\s{0,3}["']([^"'\n]{4,256})["']/gi
  },
  {
    words: ["defaultpassword"],
    form: /\bDefaultPassword["']?[ \t]+(?:\/t[ \t]+REG_SZ[ \t]+)?\/d[ \t]+["']?([^\s"']{4,128})/gi
  },
  // Unix
  option("sshpass", "-p[ \\t]{0,3}"),
  option("zip|unzip|zipcloak", "-P[ \\t]{0,3}"),
  option("ssh-keygen", "-[NP][ \\t]{1,3}"),
  option("openssl", "-[kK][ \\t]{1,3}"),
  { words: ["rclone"], form: /\brclone[ \t]+obscure[ \t]+["']?([^\s"']{4,128})/g },
  {
    words: ["config set"],
    form: /\b(?:p?npm|yarn)[ \t]+config[ \t]+set[ \t]+\S{0,200}(?:_auth|_password|_authToken)[ \t=]+["']?([^\s"']{8,1024})/gi
  },
  option("ldapsearch|ldapadd|ldapmodify|ldapdelete|ldapwhoami|ldappasswd", "-w[ \\t]{0,3}"),
  option("ipmitool|snmpwalk|snmpget|fence_ipmilan", "-(?:P|A|X)[ \\t]{1,3}"),
  option("lftp|ftp|ncftp|ncftpput", "-(?:u[ \\t]*[\"']?[\\w.@-]{1,64},|p[ \\t]{1,3})"),
  option(
    "svn|hg|cvs|nmcli|iwctl|wpa_cli|gpg|gpg2|cryptsetup|restic|borg|rclone|kinit|keytool|jarsigner|htdigest",
    "--?(?:password|passphrase|storepass|keypass|psk|pass)[ \\t=]{1,3}"
  ),
  {
    words: ["nmcli"],
    form: /\bnmcli\b[^\n|;&]{0,200}?\b(?:password|psk|wifi-sec\.psk)[ \t]{1,3}["']?([^\s"']{6,128})/g
  },
  {
    words: ["networksetup"],
    form: /\bnetworksetup[ \t]+-setairportnetwork[ \t]+\w{2,8}[ \t]+(?:"[^"\n]{1,64}"|\S{1,64})[ \t]+["']?([^\s"']{6,128})/g
  },
  {
    words: ["pass:", "-pass"],
    form: /(?:-pass(?:in|out)?[ \t]{1,3}["']?|["' \t])pass:([^\s"']{4,128})/g
  },
  {
    words: ["htpasswd"],
    form: /\bhtpasswd[ \t]+-[a-zA-Z]{0,8}b[a-zA-Z]{0,8}[ \t]+(?:\S{1,200}[ \t]+)?\S{1,64}[ \t]+["']?([^\s"']{4,128})/g
  },
  {
    words: ["chpasswd"],
    form: /\becho[ \t]+(?:-[a-z][ \t]+)?["']?[\w.-]{1,32}:([^\s"']{4,128})["']?[ \t]*\|[ \t]*(?:sudo[ \t]+)?chpasswd|chpasswd[ \t]*<<<[ \t]*["']?[\w.-]{1,32}:([^\s"']{4,128})/g
  },
  {
    words: ["|"],
    form: /\b(?:echo|printf)[ \t]+(?:-[a-zA-Z]{1,3}[ \t]+)?(?:'%s(?:\\n)?'[ \t]+)?(?:"([^"\n]{4,512})"|'([^'\n]{4,512})'|([^\s"'|]{4,512}))[ \t]*\|[ \t]*(?:sudo[ \t]+-[A-Za-z]*S|docker[ \t]+login|podman[ \t]+login|helm[ \t]+registry|gh[ \t]+auth|passwd\b|cryptsetup|kinit|gpg[^\n]{0,80}passphrase-fd)/g
  },
  {
    words: ["rabbitmqctl"],
    form: /\brabbitmqctl[ \t]+(?:-[\w-]+[ \t]+\S+[ \t]+)?(?:add_user|change_password)[ \t]+\S{1,64}[ \t]+["']?([^\s"']{4,128})/g
  },
  {
    words: ['send "', "send_user", "send --"],
    form: /\bsend(?:_user)?[ \t]+(?:--[ \t]+)?"([^"\n\\]{6,64})\\[rn]"/g
  },
  {
    words: [":5432:", ":*:", "pgpass"],
    form: /(?:^|\n)[\w.*-]{1,128}:(?:[0-9]{2,5}|\*):[\w.*-]{1,64}:[\w.*-]{1,64}:([^\s:]{4,128})/g
  },
  // Statements
  {
    words: ["identified"],
    form: /\bidentified\s+(?:with\s+\S{1,48}\s+)?(?:by|as)\s+(?:values\s+)?(?:password\s+)?["']([^"'\n]{4,128})["']|\bidentified\s+by\s+([^\s"';]{4,128})/gi
  },
  {
    words: ["password"],
    form: /\bpassword\s{1,4}(?:=\s{0,4})?N?'([^'\n]{4,128})'|\bpassword\s{0,2}\(\s{0,2}'([^'\n]{4,128})'\s{0,2}\)/gi
  },
  {
    words: ["requirepass", "masterauth", "auth "],
    form: /(?:^|\n)[ \t]{0,8}(?:requirepass|masterauth|AUTH(?:[ \t]+(?!NONE|OFF|ON\b|LOGIN|PLAIN)\w{1,32}(?=[ \t]+\S))?)[ \t]+["']?([^\s"']{4,256})/g
  },
  { words: ["pragma"], form: /\bpragma\s+(?:re)?key\s{0,3}=\s{0,3}["']([^"'\n]{4,128})["']/gi },
  {
    words: [
      "snmp-server",
      "enable secret",
      "enable password",
      "key-string",
      "wpa-psk",
      "pre-shared-key",
      "username "
    ],
    form: /\b(?:snmp-server[ \t]+community|enable[ \t]+(?:secret|password)|key-string|wpa-psk[ \t]+ascii|pre-shared-key(?:[ \t]+(?:address|ascii-text|local|remote)(?:[ \t]+[0-9.]+)?)?|username[ \t]+\S{1,64}[ \t]+(?:privilege[ \t]+[0-9]{1,2}[ \t]+)?(?:secret|password))[ \t]+(?:[0-9][ \t]+)?["']?([^\s"']{4,128})/gi
  },
  // Calls whose last text is a password: `connect("db", "app", "…")`, `auth=("ada", "…")`.
  {
    words: [
      "connect(",
      "connect (",
      "auth(",
      "auth=(",
      "auth = (",
      "login(",
      "login (",
      "pdo(",
      "mysqli(",
      "credentials(",
      "connection(",
      "bind(",
      "open(",
      "authenticate(",
      "authentication(",
      "basic(",
      "password("
    ],
    form: /\b(?:\w{0,24}(?:connect|basic_?auth|plainauth|digestauth|getconnection|setcredentials|withcredentials|passwordcredentials|passwordauthentication|authenticate|ldap_bind|imap_open|auth_password)|login|pdo|mysqli|auth|basic)\s?=?\s?\((?:[^()"'\n]{0,40}["'][^"'\n]{0,120}["']\s{0,4},\s{0,4}){1,3}["']([^"'\n]{4,128})["']/gi
  },
  // Elements with attributes.
  {
    words: ["<"],
    form: /<(?:\w{1,16}:)?\w{0,24}(?:password|passwd|pwd|secret|token|apikey|api_key)\s[^<>]{1,200}>\s{0,8}([^<>\s]{4,512})\s{0,8}</gi
  },
  // Sessions of protocols.
  {
    words: ["pass "],
    form: /(?:^|\n|[>:][ ]?)PASS[ ]((?=[^\s"'/]*[0-9])[^\s"'/]{6,128})[ ]{0,2}(?=\r?\n|\r?$)/g
  },
  {
    words: ["login "],
    form: /\b[A-Za-z]{0,4}[0-9]{1,6}[ ]LOGIN[ ]{1,2}"?[^\s"]{1,64}"?[ ]{1,2}"?([^\s"]{4,128})/g
  },
  {
    words: ["auth plain", "auth login", "auth xoauth2", "authenticate plain", "authenticate xoauth2"],
    form: /\bAUTH(?:ENTICATE)?[ ](?:PLAIN|LOGIN|XOAUTH2)[ ]{1,2}([0-9A-Za-z+/]{8,1024}={0,2})/gi
  },
  {
    words: ["secret set"],
    form: /\b(?:gh|glab)[ \t]+(?:secret|variable)[ \t]+set[ \t][^\n]{0,120}?(?:-b|--body|--value)[ \t=]{1,2}["']?([^\s"']{6,1024})/g
  },
  // The key of a generator of one-time passwords.
  {
    words: ["totp", "hotp"],
    form: /\b[th]otp\(\s{0,8}["']([A-Z2-7]{16,128})=*["']|\boathtool\b[^\n|;&]{0,120}?[ \t]["']?([A-Z2-7]{16,128})(?![0-9A-Za-z])/gi
  },
  // The text of a Wi-Fi code.
  { words: ["wifi:"], form: /WIFI:(?:[A-Z]:[^;\n]{0,64};){0,6}?P:((?:[^;\\\n]|\\.){4,128});/gi },
  // A variable that is set for later sessions.
  {
    words: ["set ", "setx ", "setenv ", "fastcgi_param ", "env ", "arg "],
    form: /\b(?:setx?|setenv|fastcgi_param|env|arg)[ \t]+(?:\/m[ \t]+)?["']?\w{0,64}(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PWD|PASS)["']?[ \t]+["']?([^\s"']{6,1024})/gi
  },
  // A line of `.netrc`.
  { words: ["login"], form: /\blogin[ \t]{1,8}\S{1,128}\s{1,8}password[ \t]{1,8}(\S{4,128})/g },
  {
    words: ["credentials"],
    form: /\bcredentials\s{0,2}(?:\+=\s{0,2}Credentials)?\s{0,2}[({]\s{0,8}(?:"[^"\n]{1,128}"\s{0,2},\s{0,2}){3}"([^"\n]{4,128})"/g
  }
]

/** The triggers of each form. */
export const commandTriggers: ReadonlyArray<ReadonlyArray<string>> = forms.map(({ words }) => words)

/**
 * Finds secrets in commands and statements, as pasted from a terminal or a script. `first`: the number of the first form's triggers in the
 * scan. Yields after each form and after some matches.
 */
export function* findCommandOptions(
  text: string,
  scan: TextScan,
  first: number
): Generator<void, ReadonlyArray<TextRange>> {
  const found: Array<TextRange> = []
  const isLong = hasSteps(text)
  let matches = 0
  // Counted, because `entries()` allocates two objects for each form.
  for (let index = 0; index < forms.length; index++) {
    const command = forms[index]
    if (command === undefined) continue
    if (!scan.has(first + index) && !(index === 0 && text.startsWith("-"))) continue
    for (let from = 0, isFurther = false; ;) {
      if (command.further !== undefined) command.further.lastIndex = from
      const next = isFurther ? (command.further?.exec(text) ?? null) : null
      const match =
        next ??
        (isLong ? yield* execInParts(command.form, text, from, EXTENT) : execFrom(command.form, text, from))
      if (match === null) break
      if (++matches % MATCHES_PER_STEP === 0) yield
      from = match.index + match[0].length
      isFurther = command.further !== undefined
      if (next === null && command.within !== undefined && !match[0].includes(command.within)) continue
      const written = match.slice(1).find((group) => group !== undefined) ?? ""
      const value = trimTrailing(written, "'\"`,;")
      const start = match.index + match[0].lastIndexOf(written)
      if (isCredential(value)) found.push({ start, end: start + value.length })
    }
    if (isLong) yield
  }
  return found
}

/** Whether a value after such an option is a secret rather than a placeholder, a variable, a path or a word. */
const isCredential = (value: string): boolean =>
  !isPlaceholder(value) &&
  !/^[-/~.]|^\w+:\/\//.test(value) &&
  hasLetter(value) &&
  (hasDigit(value) || looksRandom(value) || hasSign(value) || isUuid(value))
