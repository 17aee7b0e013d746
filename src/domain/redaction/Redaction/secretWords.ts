/**
 * Words for passwords and keys in texts of people, by language. Stems where a language inflects them; each is matched without regard to
 * case.
 */
const passwordWordsByLanguage = {
  English: [
    "passwords?",
    "pass(?= (?:for|to|für|vom|zum|zur|pour|del?) )",
    "pass ?phrases?",
    "pass ?codes?",
    "passwd",
    "pwd",
    "pw",
    "pass-?word",
    "login code",
    "unlock code",
    "wi-?fi code",
    "wi-?fi key"
  ],
  German: [
    "passw(?:o|ö)rt(?:er|e|s)?",
    "kennw(?:o|ö)rt(?:er|e|s)?",
    "losungswort",
    "zugangscode",
    "zugangskennung",
    "wlan-?schlüssel",
    "netzwerkschlüssel",
    "pwort"
  ],
  French: ["mots? de passe", "mdp", "phrase secrète", "phrase de passe", "code d['’]accès", "clé wi-?fi"],
  Spanish: [
    "contraseñas?",
    "contrasenas?",
    "clave(?= (?:del?|es|para|wi-?fi|secreta)|:)",
    "clave de acceso",
    "palabra clave",
    "código de acceso"
  ],
  Portuguese: ["senhas?", "palavras?[- ]passe", "palavra-chave", "código de acesso"],
  Italian: [
    "parola d['’]ordine",
    "parola chiave",
    "chiave di accesso",
    "codice di accesso",
    "parole d['’]ordine"
  ],
  Dutch: ["wachtwoord(?:en)?", "toegangscode", "wachtzin"],
  Polish: ["hasł(?:o|a|em|u)", "haslo", "kod dostępu"],
  Czech: ["hesl(?:o|a|em|u)", "přístupový kód"],
  Slovak: ["prístupový kód"],
  Turkish: ["şifre(?:si|niz|m|n|yi|miz)?", "sifre(?:si|niz|m)?", "parola(?:sı|nız|m)?"],
  Swedish: ["lösenord(?:et)?", "losenord"],
  Norwegian: ["passord(?:et)?"],
  Danish: ["adgangskode(?:n)?", "kodeord(?:et)?"],
  Finnish: ["salasana(?:ni|si|mme|nne)?"],
  Hungarian: ["jelsz(?:ó|avam|avad|ava|avunk)", "jelszo"],
  Romanian: ["parol(?:a|ă|ei)"],
  Croatian: ["lozink(?:a|u|e)", "geslo", "šifra"],
  Vietnamese: ["mật khẩu"],
  Indonesian: ["kata sandi", "sandi"],
  Russian: ["парол(?:ь|я|ем|ю|и)", "кодовое слово", "код доступа"],
  Ukrainian: ["пароль", "гасло"],
  Bulgarian: ["парол(?:а|ата)"],
  Serbian: ["лозинк(?:а|у|е)", "шифра"],
  Greek: ["κωδικ(?:ός|ό|ού)(?: πρόσβασης)?", "συνθηματικό"],
  Hebrew: ["ה?סיסמ(?:ה|א|ת)(?: של[יך])?"],
  Arabic: ["كلم[ةه] ?(?:ال)?(?:مرور|سر)", "كلمتي السرية", "الرقم السري", "الباسورد", "باسورد"],
  Persian: ["رمز ?(?:عبور|ورود)?", "گذرواژه", "پسورد"],
  Hindi: ["पासवर्ड", "कूटशब्द", "कूट ?शब्द"],
  Bengali: ["পাসওয়ার্ড"],
  Thai: ["รหัสผ่าน"],
  Japanese: ["パスワード", "パスコード", "パスフレーズ", "暗証番号", "合言葉", "ログインパス"],
  Chinese: ["密码", "密碼", "口令", "通行码"],
  Korean: ["비밀번호", "패스워드", "암호", "비번"]
} as const satisfies Record<string, ReadonlyArray<string>>

const keyWordsByLanguage = {
  English: [
    "(?:api|access|secret|private|master|licen[cs]e|auth|encryption|signing)[ -]?(?:key|token|secret)s?",
    "(?:use|using|with|my|our) (?:this )?key",
    "tokens?",
    "secrets?",
    "credentials?",
    "bearer"
  ],
  German: [
    "(?:api-?|zugriffs|zugangs|geheim|geheimer |privater? |lizenz|master-?)schlüssel",
    "schlüssel",
    "zugriffstoken",
    "zugangstoken",
    "geheimnis",
    "zugangsdaten"
  ],
  French: ["clés? (?:d['’])?(?:api|accès)", "clés? (?:secrète|privée)s?", "clés? api", "clé", "jetons?"],
  Spanish: [
    "(?:clave|llave)s? (?:(?:de )?(?:la )?api|secreta|privada|de acceso)",
    "token de acceso",
    "credenciales"
  ],
  Portuguese: ["chaves? (?:d[ae] )?(?:api|acesso)", "chaves? (?:secreta|privada)", "chave", "credenciais"],
  Italian: ["chiav[ei] (?:api|segret[ae]|privat[ae]|di accesso|dell['’]api)", "chiave", "credenziali"],
  Dutch: ["(?:api-?|toegangs|geheime |privé)sleutel", "sleutel", "toegangstoken"],
  Polish: ["klucz(?:a|em)?(?: api| dostępu| prywatny)?", "tokena?"],
  Czech: ["(?:api )?klíč(?:e|em)?(?: api)?"],
  Turkish: ["(?:api |erişim |gizli )?anahtar(?:ı|ınız|ım)?", "jeton"],
  Swedish: ["(?:api-?)?nyckel(?:n)?"],
  Danish: ["(?:api-?)?nøgle(?:n)?", "(?:api-?)?nøkkel(?:en)?"],
  Finnish: ["(?:api-)?avain"],
  Hungarian: ["(?:api[- ])?kulcs(?:om|od|a)?"],
  Romanian: ["chei[ae] (?:api|secretă)", "cheia"],
  Russian: ["ключ(?:а|ом|и)?(?: api| доступа)?", "токен(?:а|ом|ы)?", "секрет(?:ный ключ)?"],
  Ukrainian: ["секретний ключ"],
  Greek: ["κλειδί(?: api)?"],
  Hebrew: ["מפתח(?: api)?", "ה?אסימון", "טוקן"],
  Arabic: ["مفتاح(?: api| ?الـ?api)?", "(?:ال)?(?:رمز|توكن)"],
  Hindi: ["कुंजी", "टोकन", "api ?की", "एपीआई"],
  Japanese: ["(?:api ?|アクセス|シークレット|秘密)(?:キー|鍵)", "トークン", "シークレット"],
  Chinese: ["(?:api ?|访问|存取|私)?(?:密钥|密鑰|金鑰|秘钥|钥匙)", "(?:访问|存取)?(?:令牌|权杖)", "凭证"],
  Korean: ["(?:api ?|액세스 ?|비밀 ?|시크릿 ?)키", "토큰", "시크릿"],
  Vietnamese: ["khóa (?:api|bí mật)"],
  Indonesian: ["kunci (?:api|rahasia)"]
} as const satisfies Record<string, ReadonlyArray<string>>

const alternatives = (byLanguage: Readonly<Record<string, ReadonlyArray<string>>>): string =>
  [...new Set(Object.values(byLanguage).flat())]
    .toSorted((left, right) => right.length - left.length)
    .join("|")

/** Regular expressions of the words, as alternatives; the longest first. */
export const passwordWords = alternatives(passwordWordsByLanguage)
export const keyPhrases = alternatives(keyWordsByLanguage)

/** A text must contain one of these literals, in any case, before it is searched for the words above in Latin letters. */
export const passwordTriggers =
  "pass pwd pw kennw losungswort zugang schlüssel pwort mdp wi-fi wifi wlan code contrase clave código senha palavra parola chiave wachtw hasł haslo kod hesl sifre şifre lösenord losenord passord adgangskode kodeord salasana jelsz parol lozink geslo šifra sandi".split(
    " "
  )
export const keyTriggers =
  "key token secret credential bearer schlüssel zugriff zugang geheim clé jeton clave llave credencia chave chiav credenzial sleutel klucz klíč anahtar nyckel nøgle nøkkel avain kulcs chei kunci khóa".split(
    " "
  )

/** A label that ends in a word for passwords. */
export const passwordLabel = new RegExp(
  `(?:^|[^\\p{L}\\p{N}_])(?:${passwordWords})(?: (?:provisoire|temporaire|initial|actuel|temporal|provisional|inicial|actual|tempor[aá]ria|provvisoria|temporanea))?$`,
  "iu"
)
