/**
 * Formats of provider secrets: prefix, body and an additional check, from the providers' documentation. A body is one run of a character
 * class, or several between literals, matched directly after the prefix in linear time.
 */
export interface ProviderForm {
  readonly prefix: string
  /** Sticky: matches directly after the prefix. */
  readonly body: RegExp
  /** The check of the whole secret beyond its format. */
  readonly check?: FormCheck
}

/**
 * - `crc`: the last six digits are the checksum of the characters between the prefix and them
 * - `crc32hex`: the last eight hex digits are the CRC-32 of everything before the last `_`
 * - `random`: looks random, since ordinary names start with the same prefix
 * - `digit`: contains a digit and is not a placeholder
 */
export type FormCheck = "crc" | "crc32hex" | "random" | "digit"

const form = (prefix: string, body: string, check?: FormCheck): ProviderForm => ({
  prefix,
  body: new RegExp(body, "y"),
  ...(check === undefined ? {} : { check })
})

const forms = (prefixes: string, body: string, check?: FormCheck) =>
  prefixes.split(" ").map((prefix) => form(prefix, body, check))

const base62 = (count: string | number) => `[0-9A-Za-z]{${count}}`
const hex = (count: string | number) => `[0-9a-f]{${count}}`
const word = (count: string | number) => `[0-9A-Za-z_-]{${count}}`

export const providerForms: ReadonlyArray<ProviderForm> = [
  // Code hosts and package registries
  ...forms("ghp_ gho_ ghu_ ghs_ ghr_ npm_", base62(36), "crc"),
  form("github_pat_", `${base62(22)}_${base62(59)}`),
  ...forms(
    "glpat- glptt- gldt- glrt- glcbt- glft- glimt- glagent- gloas- glsoat- glffct-",
    word("20,"),
    "digit"
  ),
  form("ATATT3", "[0-9A-Za-z_=-]{150,}"),
  form("ATBB", base62("28,36"), "random"),
  form("pypi-AgE", word("50,")),
  form("rubygems_", hex(48)),
  form("oy2", "[a-z0-9]{43}", "random"),
  form("CLOJARS_", base62(60)),
  form("dckr_pat_", word("27,")),
  form("dckr_oat_", word("27,")),
  form("sgp_", `(?:${hex(16)}_)?${hex(40)}`),
  form("AKCp", base62("60,")),
  // Clouds
  ...forms("AKIA ASIA ABIA ACCA", "[A-Z2-7]{16}", "digit"),
  form("AIza", word(35)),
  form("GOCSPX-", word(28)),
  form("ya29.", "[0-9A-Za-z_.-]{20,}", "digit"),
  form("1//0", word("40,")),
  form("LTAI", base62("12,24"), "random"),
  form("dop_v1_", hex(64)),
  form("doo_v1_", hex(64)),
  form("dor_v1_", hex(64)),
  form("HRKU-", "[0-9A-Za-z_-]{36,}"),
  form("pscale_tkn_", "[0-9A-Za-z_.=-]{32,}"),
  form("pscale_pw_", "[0-9A-Za-z_.=-]{32,}"),
  form("pscale_oauth_", "[0-9A-Za-z_.=-]{32,}"),
  form("pul-", hex(40)),
  form("sbp_", hex(40)),
  form("sb_secret_", word("20,"), "digit"),
  form("nfp_", base62("36,")),
  form("fm2_", "[0-9A-Za-z+/=_-]{80,}"),
  form("FlyV1 ", "fm[12]r?_[0-9A-Za-z+/=_,-]{80,}"),
  form("hvs.", word("24,")),
  form("hvb.", word("80,")),
  form("hvr.", word("24,")),
  form("tskey-", "[a-z]+-[0-9A-Za-z]{8,}(?:-[0-9A-Za-z]{8,})?"),
  form("dapi", `${hex(32)}(?:-[0-9])?`),
  form("v1.0-", `${hex(24)}-${hex(146)}`),
  form("cfut_", "[0-9A-Za-z_-]{30,}"),
  form("AQVN", word("35,38"), "random"),
  form("AGE-SECRET-KEY-1", "[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
  form("sha256~", word(43)),
  // AI models
  ...forms("sk-ant-api03- sk-ant-admin01- sk-ant-oat01- sk-ant-ort01-", word("60,")),
  ...forms("sk-proj- sk-svcacct- sk-admin- sk-None- sk-or-v1- sk-lf- sk-t0-", word("24,"), "random"),
  form("sk-", word("20,"), "random"),
  form("hf_", "[A-Za-z]{34}", "random"),
  form("api_org_", "[A-Za-z]{34}"),
  form("gsk_", base62(52)),
  form("xai-", base62("70,")),
  form("r8_", base62(37)),
  form("pplx-", base62("40,")),
  form("nvapi-", word(64)),
  form("fw_", base62(24), "random"),
  form("tgp_v1_", word(43)),
  form("lsv2_pt_", `${hex(32)}_${hex(10)}`),
  form("lsv2_sk_", `${hex(32)}_${hex(10)}`),
  // Payments and commerce
  ...forms("sk_live_ sk_test_ rk_live_ rk_test_ sk_prod_ rk_prod_", base62("10,"), "digit"),
  form("whsec_", "[0-9A-Za-z+/=_-]{24,}", "digit"),
  ...forms("sq0atp- sq0csp- sq0idp-", word("22,"), "digit"),
  form("access_token$production$", `[0-9a-z]{16}\\$${hex(32)}`),
  ...forms("EZAK EZTK", base62(54)),
  ...forms("FLWSECK- FLWSECK_TEST-", "[0-9A-Za-z]{12,}(?:-X)?", "digit"),
  ...forms("shpat_ shpca_ shppa_ shpss_", "[0-9A-Fa-f]{32}"),
  ...forms("shippo_live_ shippo_test_", hex(40)),
  form("duffel_live_", word(43)),
  form("duffel_test_", word(43)),
  // Messaging and mail
  ...forms(
    "xoxb- xoxp- xoxa- xoxr- xoxs- xoxo- xoxe- xoxe.xoxp- xoxe.xoxb- xoxc- xoxd-",
    "[0-9A-Za-z%-]{20,}",
    "digit"
  ),
  form("xapp-", "[0-9]-[A-Z0-9]+-[0-9]+-[0-9A-Za-z]{20,}"),
  form("SG.", `${word("20,24")}\\.${word("39,50")}`),
  form("key-", hex(32)),
  form("xkeysib-", `${hex(64)}-${base62(16)}`),
  form("xsmtpsib-", `${hex(64)}-${base62(16)}`),
  form("SK", hex(32)),
  form("re_", `${base62("8,")}_${base62("16,")}`, "digit"),
  // Developer tools
  form("lin_api_", base62("32,48")),
  form("lin_oauth_", hex(64)),
  form("ntn_", base62("43,")),
  form("secret_", base62(43)),
  form("PMAK-", `${hex(24)}-${hex(34)}`),
  form("figd_", word("38,")),
  form("NRAK-", "[0-9A-Z]{27}"),
  form("NRII-", word(32)),
  form("NRAA-", hex(27)),
  form("dt0c01.", "[A-Z2-7]{24}\\.[A-Z2-7]{64}"),
  form("glsa_", `${base62(32)}_${hex(8)}`, "crc32hex"),
  form("glc_", "[0-9A-Za-z+/=]{32,}", "digit"),
  form("sntrys_", "[0-9A-Za-z+/=_-]{40,}"),
  form("sntryu_", hex(64)),
  ...forms("squ_ sqp_ sqa_", hex(40)),
  form("phx_", base62("40,")),
  form("dp.pt.", base62("40,44")),
  form("dp.st.", "(?:[a-z0-9-]{2,35}\\.)?[0-9A-Za-z]{40,44}"),
  form("pnu_", base62("30,36"), "random"),
  form("rdme_", "[a-z0-9]{70}"),
  form("tfp_", "[0-9A-Za-z_.=-]{40,}"),
  form("ico-", base62(32), "random"),
  form("pat-na1-", `${hex(8)}-${hex(4)}-${hex(4)}-${hex(4)}-${hex(12)}`),
  form("pat-eu1-", `${hex(8)}-${hex(4)}-${hex(4)}-${hex(4)}-${hex(12)}`),
  form("sdk-", `${hex(8)}-${hex(4)}-${hex(4)}-${hex(4)}-${hex(12)}`),
  form("aio_", base62(28)),
  form("sk.eyJ", "[0-9A-Za-z_-]{20,}\\.[0-9A-Za-z_-]{20,}"),
  form("ops_eyJ", "[0-9A-Za-z+/=_-]{100,}"),
  form("A3-", "[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}"),
  form("sm_pat_", base62(16), "random"),
  form("scw_", "[0-9a-f-]{36}"),
  form("CCIPAT_", "[0-9A-Za-z]{22}_[0-9a-f]{40}"),
  form("bkua_", hex(40)),
  form("EAACEdEose0cBA", base62("20,")),
  form("EAA", base62("80,"), "random")
]
