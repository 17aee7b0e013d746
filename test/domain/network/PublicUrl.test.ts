import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { NetAddress } from "effect/net"
import fc from "fast-check"
import { inspect } from "node:util"
import { isPublic, parseAllowedNetworks, parseNetworks } from "../../../src/domain/network/PublicAddress.ts"
import { PublicUrl, urlRefusalDetail, urlHint, makeUrlRule } from "../../../src/domain/network/PublicUrl.ts"

const rule = (
  options: {
    readonly allow?: string
    readonly deny?: string
    readonly http?: boolean
    readonly own?: string
  } = {}
) =>
  makeUrlRule({
    allow: Result.getOrThrow(parseAllowedNetworks(options.allow ?? "")),
    deny: Result.getOrThrow(parseNetworks(options.deny ?? "")),
    allowHttp: options.http ?? false,
    ownHost: options.own
  })

const plain = rule()

/** The reason of the refusal; `undefined` if the URL is accepted. */
const refusal = (text: string, by = plain) => {
  const parsed = PublicUrl.parse(text, by)
  return Result.isFailure(parsed) ? parsed.failure : undefined
}

const ip = NetAddress.ipFromStringUnsafe
const labels63 = "a".repeat(63)

describe("PublicUrl.parse on the text of a URL", () => {
  it.each([
    "https://hooks.acme.com",
    "https://hooks.acme.com/",
    "HTTPS://Hooks.Acme.COM/Path?query=1&b=%20",
    "https://hooks.acme.com:8443/v1",
    "https://otlp.acme.com:4318/v1/traces",
    "https://acme.com:1024/",
    "https://acme.com:65535/",
    "https://8.8.8.8/",
    "https://[2606:4700::1111]/",
    "https://[2606:4700:0:0:0:0:0:1111]:8443/",
    "https://my_hook.acme.com/",
    "https://_x_.acme.com/",
    "https://r3---sn-abc.acme.com/",
    "https://bücher.de/",
    "https://xn--bcher-kva.de/",
    "https://日本語.jp/パス",
    "https://acme.com/a@b%20c",
    "https://acme.com?x=1",
    `https://${labels63}.${labels63}.${labels63}.${"a".repeat(57)}.com/`,
    `https://acme.com/${"a".repeat(2048 - "https://acme.com/".length)}`,
    "https://localhost.acme.com/",
    "https://internal.acme.com/",
    "https://notmetadata.goog.acme.com/"
  ])("accepts %s", (text) => assert.isUndefined(refusal(text)))

  it.each([
    ["http://acme.com/", "NotHttps"],
    ["ftp://acme.com/", "NotHttps"],
    ["//acme.com/", "NotHttps"],
    ["https:/acme.com/", "NotHttps"],
    ["https:acme.com/", "NotHttps"],
    ["acme.com", "NotHttps"],
    ["", "NotHttps"],
    ["https:///hook", "NoHost"],
    ["https://", "NoHost"],
    ["https://?x", "NoHost"],
    [`https://acme.com/${"a".repeat(2049 - "https://acme.com/".length)}`, "TooLong"],
    ["https://acme.com/#", "Fragment"],
    ["https://acme.com/a#b", "Fragment"],
    ["https://user@acme.com/", "Credentials"],
    ["https://user:pass@acme.com/", "Credentials"],
    ["https://@acme.com/", "Credentials"],
    ["https://acme.com@8.8.8.8/", "Credentials"],
    ["https://loc%61lhost/", "PercentInHost"],
    ["https://acme%2ecom/", "PercentInHost"],
    ["https://[fe80::1%25eth0]/", "PercentInHost"],
    ["https://acme.com:port/", "Malformed"],
    ["https://acme.com:65536/", "Malformed"],
    ["https://acme.com:-1/", "Malformed"],
    ["https://[::1/", "Malformed"],
    ["https://[2606:4700::1111]x/", "Malformed"],
    ["https://256.1.1.1/", "Malformed"],
    ["https://1.2.3.4.5/", "Malformed"],
    ["https://acme.com./", "TrailingDot"],
    ["https://acme..com/", "BadLabel"],
    ["https://.acme.com/", "BadLabel"],
    ["https://-acme.com/", "BadLabel"],
    ["https://acme-.com/", "BadLabel"],
    ["https://ac*me.com/", "BadLabel"],
    ["https://ac!me.com/", "BadLabel"],
    [`https://${"a".repeat(64)}.com/`, "BadLabel"],
    [`https://${labels63}.${labels63}.${labels63}.${"a".repeat(58)}.com/`, "NameTooLong"],
    ["https://acme/", "SingleLabel"],
    ["https://localhost/", "ReservedName"],
    ["https://LOCALHOST/", "ReservedName"],
    ["https://ｌｏｃａｌｈｏｓｔ/", "ReservedName"],
    ["https://a.localhost/", "ReservedName"],
    ["https://metadata/", "MetadataName"],
    ["https://metadata.google.internal/", "MetadataName"],
    ["https://metadata.goog/", "MetadataName"],
    ["https://METADATA.goog/computeMetadata/v1/", "MetadataName"],
    ["https://eu.metadata.azure.com/", "MetadataName"],
    ["https://instance-data/", "MetadataName"],
    ["https://instance-data.ec2.internal/", "MetadataName"]
  ] as const)("refuses %s: %s", (text, reason) => assert.strictEqual(refusal(text), reason))

  it.each(
    "local internal localdomain lan home corp intranet private test invalid example onion alt arpa svc cluster consul".split(
      " "
    )
  )("refuses names that end in .%s", (last) => {
    assert.strictEqual(refusal(`https://a.${last}/`), "ReservedName")
    assert.strictEqual(refusal(`https://a.b.${last.toUpperCase()}/`), "ReservedName")
    assert.isUndefined(refusal(`https://${last}.acme.com/`))
  })

  it("refuses every control character, space, invisible character and backslash at any position", () => {
    const marks = [
      ...Array.from({ length: 33 }, (_, code) => code),
      ...[
        0x7f, 0x80, 0x85, 0x9f, 0xa0, 0xad, 0x5c, 0x1680, 0x180e, 0x2028, 0x2029, 0x202f, 0x205f, 0x2060,
        0x3000
      ],
      ...Array.from({ length: 16 }, (_, code) => 0x2000 + code),
      ...[
        0x061c, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069, 0xfeff, 0xe0001,
        0xfe0f, 0xd800
      ]
    ].map((code) => String.fromCodePoint(code))
    for (const mark of marks) {
      for (const text of [
        `${mark}https://acme.com/`,
        `https://ac${mark}me.com/`,
        `https://acme.com/a${mark}`
      ]) {
        assert.strictEqual(refusal(text), "RefusedCharacter", JSON.stringify(text))
      }
    }
  })

  it("every reason has a sentence that contains nothing of the URL", () => {
    for (const sentence of Object.values(urlRefusalDetail)) assert.match(sentence, /^[A-Z].*\.$/s)
  })
})

describe("a literal address in a URL", () => {
  const part = fc.nat(255)
  const octets = fc.tuple(part, part, part, part)
  const asNumber = (o: ReadonlyArray<number>) => o.reduce((sum, octet) => sum * 256 + octet, 0)

  it("is accepted in its plain form only, and only if public", () => {
    fc.assert(
      fc.property(octets, (o) => {
        const text = o.join(".")
        assert.strictEqual(refusal(`https://${text}/`) === undefined, isPublic(ip(text)), text)
      }),
      { numRuns: 2_000 }
    )
  })

  it("is refused in every other spelling that the URL parser understands", () => {
    const fullWidth = (text: string) =>
      text.replace(/[0-9]/g, (digit) => String.fromCodePoint(0xff10 + Number(digit)))
    const circled = (text: string) =>
      text.replace(/[1-9]/g, (digit) => String.fromCodePoint(0x2460 + Number(digit) - 1))
    fc.assert(
      fc.property(octets, (o) => {
        const [a, b, c, d] = o
        const text = o.join(".")
        const hex = o.map((octet) => `0x${octet.toString(16)}`)
        const spellings = [
          String(asNumber(o)),
          `0x${asNumber(o).toString(16)}`,
          `0${asNumber(o).toString(8)}`,
          hex.join("."),
          hex.join(".").toUpperCase(),
          o.map((octet) => `0${octet.toString(8)}`).join("."),
          `${a}.${asNumber([b, c, d])}`,
          `${a}.${b}.${asNumber([c, d])}`,
          `0${text}`,
          `${text}.`,
          fullWidth(text),
          text.replaceAll(".", "。"),
          text.replaceAll(".", "．"),
          ...(circled(text) === text ? [] : [circled(text)])
        ]
        for (const spelling of spellings) {
          // The parser turns "0" in octal into 0, which is the plain form.
          if (spelling === text) continue
          assert.isDefined(refusal(`https://${spelling}/`), spelling)
          assert.isDefined(refusal(`https://${spelling}:8443/`), spelling)
        }
      }),
      { numRuns: 500 }
    )
  })

  it("is refused inside an IPv6 literal in every embedding and spelling", () => {
    const hex = (o: ReadonlyArray<number>) =>
      [asNumber(o.slice(0, 2)), asNumber(o.slice(2))].map((group) => group.toString(16)).join(":")
    fc.assert(
      fc.property(octets, (o) => {
        const dotted = o.join(".")
        const literals = [
          ...[
            "::",
            "::ffff:",
            "::ffff:0:",
            "64:ff9b::",
            "64:ff9b:1::",
            "2606:4700::5efe:",
            "2606:4700::"
          ].map((prefix) => `${prefix}${dotted}`),
          ...["::ffff:", "::FFFF:", "0:0:0:0:0:ffff:", "::ffff:0:", "64:ff9b::", "2001:0:0:0:0:0:"].map(
            (prefix) => `${prefix}${hex(o)}`
          ),
          `2002:${hex(o)}::`,
          `2606:4700::200:5efe:${hex(o)}`
        ]
        for (const literal of literals) {
          assert.strictEqual(refusal(`https://[${literal}]/`), "WrappedAddress", literal)
        }
      }),
      { numRuns: 500 }
    )
  })

  it.each([
    ["https://127.0.0.1/", "NotPublic"],
    ["https://127.1/", "AddressForm"],
    ["https://0177.0.0.1/", "AddressForm"],
    ["https://2130706433/", "AddressForm"],
    ["https://0x7f.1/", "AddressForm"],
    ["https://①②⑦.0.0.1/", "AddressForm"],
    ["https://127。0。0。1/", "AddressForm"],
    ["https://169.254.169.254/", "NotPublic"],
    ["https://168.63.129.16/", "NotPublic"],
    ["https://[::1]/", "NotPublic"],
    ["https://[::]/", "NotPublic"],
    ["https://[fe80::1]/", "NotPublic"],
    ["https://[fd00:ec2::254]/", "NotPublic"],
    ["https://[2001:db8::1]/", "NotPublic"],
    ["https://[::7f00:1]/", "WrappedAddress"]
  ] as const)("%s is refused: %s", (text, reason) => assert.strictEqual(refusal(text), reason))
})

describe("the port of a URL", () => {
  const refused = [
    0, 1, 21, 22, 25, 80, 442, 444, 1023, 1719, 2049, 3659, 5060, 6000, 6667, 10_080, 1433, 1521, 3306, 5432,
    5984, 6379, 11_211, 27_017, 9200, 9042, 2375, 2376, 2379, 6443, 8500, 10_250, 4369, 5672, 15_672, 9092,
    4222, 2181, 61_616
  ]
  it.each(refused)("port %i is refused", (port) => {
    assert.strictEqual(refusal(`https://acme.com:${port}/`), "RefusedPort")
    assert.strictEqual(refusal(`https://8.8.8.8:${port}/`), "RefusedPort")
  })
  it.each([443, 1024, 3000, 4317, 4318, 8000, 8080, 8200, 8443, 9000, 9443, 50_051, 65_535])(
    "port %i is accepted",
    (port) => assert.isUndefined(refusal(`https://acme.com:${port}/`))
  )
})

describe("the service's own host in a URL", () => {
  it("is refused on any port and in any spelling", () => {
    const own = rule({ own: "app.acme.com" })
    for (const text of ["https://app.acme.com/", "https://APP.acme.com:8443/", "https://ａpp.acme.com/"]) {
      assert.strictEqual(refusal(text, own), "OwnHost")
    }
    assert.isUndefined(refusal("https://hooks.acme.com/", own))
  })

  it("another port of the own address is accepted if the address is allowed", () => {
    const own = rule({ own: "127.0.0.1:8080", allow: "127.0.0.0/8", http: true })
    assert.strictEqual(refusal("http://127.0.0.1:8080/", own), "OwnHost")
    assert.isUndefined(refusal("http://127.0.0.1:9090/", own))
  })
})

describe("a URL with allowed networks", () => {
  const development = rule({ allow: "127.0.0.1:9999,[::1]:9999,10.0.0.0/8", http: true, deny: "10.9.0.0/16" })

  it.each([
    ["http://127.0.0.1:9999/", undefined],
    ["https://127.0.0.1:9999/", undefined],
    ["http://127.0.0.1:9998/", "NotPublic"],
    ["http://[::1]:9999/", undefined],
    ["http://[::1]:9998/", "NotPublic"],
    ["http://10.1.2.3/", undefined],
    ["http://10.1.2.3:6379/", undefined],
    ["http://10.9.2.3/", "Denied"],
    ["http://8.8.8.8/", "NotHttps"],
    ["https://8.8.8.8:80/", "RefusedPort"],
    ["http://0x7f.1:9999/", "AddressForm"],
    ["http://[::ffff:10.1.2.3]/", "WrappedAddress"],
    ["http://localhost:9999/", "ReservedName"]
  ] as const)("%s gives %s", (text, reason) => assert.strictEqual(refusal(text, development), reason))

  it("plain http and closed ports are accepted for names too, but only at allowed addresses", () => {
    for (const text of ["http://model.acme.com/", "https://model.acme.com:6379/"]) {
      const url = Result.getOrThrow(PublicUrl.parse(text, development))
      assert.isUndefined(url.checkAddress(ip("10.1.2.3"), development))
      assert.isDefined(url.checkAddress(ip("8.8.8.8"), development))
      assert.isDefined(url.checkAddress(ip("10.9.2.3"), development))
      assert.isDefined(url.checkAddress(ip("192.168.0.1"), development))
    }
  })

  it("plain http needs both the allowlist and the switch", () => {
    assert.strictEqual(refusal("http://127.0.0.1:9999/", rule({ allow: "127.0.0.1:9999" })), "NotHttps")
    assert.strictEqual(refusal("http://hooks.acme.com/", rule({ http: true })), "NotHttps")
  })
})

describe("a parsed PublicUrl", () => {
  const url = Result.getOrThrow(PublicUrl.parse("https://Otlp.Acme.com:8443/secret/token?key=hidden", plain))

  it("has the parts of a request", () => {
    assert.strictEqual(url.host, "otlp.acme.com")
    assert.strictEqual(url.port, 8443)
    assert.strictEqual(url.target, "/secret/token?key=hidden")
    assert.isTrue(url.secure)
  })

  it("prints as its hint in every way of printing", () => {
    for (const printed of [
      String(url),
      JSON.stringify({ url }),
      inspect(url),
      inspect({ url }, { depth: 9 })
    ]) {
      assert.include(printed, "https://otlp.acme.com:8443/…")
      assert.notMatch(printed, /secret|token|hidden/)
    }
  })
})

describe("urlHint", () => {
  it.each([
    ["https://otlp.example.com/v1/traces?key=1", "https://otlp.example.com/…"],
    ["https://otlp.example.com", "https://otlp.example.com/…"],
    ["https://otlp.example.com:443/x", "https://otlp.example.com/…"],
    ["https://otlp.example.com:4318/x", "https://otlp.example.com:4318/…"],
    ["https://[2606:4700::1111]:4318/x", "https://[2606:4700::1111]:4318/…"],
    ["nothing", "…"]
  ])("the hint of %s is %s", (text, hint) => assert.strictEqual(urlHint(text), hint))
})
