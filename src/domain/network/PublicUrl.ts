import { Inspectable, Result } from "effect"
import { NetAddress } from "effect/net"
import type { AddressRule, AddressClass } from "./PublicAddress.ts"
import { makeAddressRule, classifyAddress, wrapsIpv4 } from "./PublicAddress.ts"
import { checkHostName } from "./PublicUrl/checkHostName.ts"
import { isOpenPort } from "./PublicUrl/isOpenPort.ts"
import type { UrlRefusal } from "./PublicUrl/UrlRefusal.ts"
import { MAX_URL_LENGTH } from "./PublicUrl/UrlRefusal.ts"

export type { UrlRefusal } from "./PublicUrl/UrlRefusal.ts"
export { urlRefusalDetail } from "./PublicUrl/UrlRefusal.ts"

/** The configured part of the URL rules. Made by {@link makeUrlRule}. */
export interface UrlRule {
  readonly addresses: AddressRule
  readonly allowHttp: boolean
  readonly own: { readonly host: string; readonly ports: ReadonlyArray<number> } | undefined
}

/**
 * `ownHost` is the service's own public host, with its port if it has one (`app.acme.com`, `127.0.0.1:8080`); without a port it means 80
 * and 443.
 */
export const makeUrlRule = (options: {
  readonly allow: Parameters<typeof makeAddressRule>[0]["allow"]
  readonly deny: Parameters<typeof makeAddressRule>[0]["deny"]
  readonly allowHttp: boolean
  readonly ownHost: string | undefined
}): UrlRule => {
  const own = options.ownHost === undefined ? null : URL.parse(`http://${options.ownHost}`)
  return {
    addresses: makeAddressRule(options),
    allowHttp: options.allowHttp,
    own:
      own === null
        ? undefined
        : { host: own.hostname, ports: own.port === "" ? [80, 443] : [Number(own.port)] }
  }
}

/**
 * Control and format characters (including zero-width and bidirectional marks), all kinds of space, lone surrogates, characters that render
 * as nothing, and the backslash, which the URL parser reads as a slash. The parser drops or maps most of these, so they are refused before
 * parsing.
 */
const refusedCharacter = /[\p{Cc}\p{Cf}\p{Z}\p{Cs}\p{Default_Ignorable_Code_Point}\\]/u

/** Scheme and authority: from `//` to the first slash or question mark. */
const schemeAndAuthority = /^(https?):\/\/([^/?]*)/i

/** The host as typed: an IPv6 literal in brackets, or everything before a colon. */
const typedHost = (authority: string): string =>
  authority.startsWith("[")
    ? authority.slice(0, authority.indexOf("]") + 1)
    : (authority.split(":", 1)[0] ?? "")

/** Returns the literal address of a host, `undefined` for a name. `host` is normalized by the parser, `typed` is not. */
const literalOf = (
  typed: string,
  host: string
): Result.Result<NetAddress.IpAddress | undefined, UrlRefusal> => {
  if (host.startsWith("[")) {
    const address = NetAddress.ipv6FromString(host.slice(1, -1))
    if (Result.isFailure(address)) return Result.fail("Malformed")
    return typed.includes(".") || wrapsIpv4(address.success)
      ? Result.fail("WrappedAddress")
      : Result.succeed(address.success)
  }
  // The parser writes every IPv4 address as four decimal numbers, and never produces a name that looks like one.
  if (!/^[\d.]+$/.test(host)) return Result.succeed(undefined)
  const address = NetAddress.ipv4FromString(host)
  if (Result.isFailure(address)) return Result.fail("Malformed")
  return typed === host ? Result.succeed(address.success) : Result.fail("AddressForm")
}

/**
 * Whether the host is the service's own, which no endpoint may name: the service would call itself. An allowed address is the service's own
 * only on its own port, so that a receiver in development can listen beside it on loopback.
 */
const isOwn = (own: UrlRule["own"], host: string, port: number, verdict: AddressClass | undefined): boolean =>
  own !== undefined && own.host === host && (verdict !== "Allowed" || own.ports.includes(port))

/**
 * A URL that passed the text rules; a literal address has been classified. The addresses of a name are checked with {@link
 * PublicUrl.checkAddress} at each DNS lookup. The path may be a secret, so the URL prints as its hint.
 */
export class PublicUrl {
  /** The text as given. */
  readonly text: string
  readonly secure: boolean
  /** A name in lower case with IDN in punycode, or an address without brackets. */
  readonly host: string
  /** The address, if the host is one. */
  readonly address: NetAddress.IpAddress | undefined
  readonly port: number
  /** Scheme, host, and the port if it is not the scheme's default. */
  readonly origin: string
  /** Path and query, as sent in the request line. */
  readonly target: string
  /** Plain http or a closed port: only addresses on the allowlist are accepted. */
  readonly requiresAllowedAddress: boolean

  private constructor(parts: {
    readonly text: string
    readonly url: URL
    readonly address: NetAddress.IpAddress | undefined
    readonly port: number
    readonly onlyAllowed: boolean
  }) {
    this.text = parts.text
    this.secure = parts.url.protocol === "https:"
    this.host = parts.url.hostname.replace(/^\[|\]$/g, "")
    this.address = parts.address
    this.port = parts.port
    this.origin = parts.url.origin
    this.target = `${parts.url.pathname}${parts.url.search}`
    this.requiresAllowedAddress = parts.onlyAllowed
  }

  /** Applies the text rules. Performs no DNS lookup. */
  static parse(text: string, rule: UrlRule): Result.Result<PublicUrl, UrlRefusal> {
    if (text.length > MAX_URL_LENGTH) return Result.fail("TooLong")
    if (refusedCharacter.test(text)) return Result.fail("RefusedCharacter")
    if (text.includes("#")) return Result.fail("Fragment")
    const [, scheme, authority] = schemeAndAuthority.exec(text) ?? []
    if (scheme === undefined || authority === undefined) return Result.fail("NotHttps")
    const plain = scheme.toLowerCase() === "http"
    if (plain && !rule.allowHttp) return Result.fail("NotHttps")
    if (authority === "") return Result.fail("NoHost")
    if (authority.includes("@")) return Result.fail("Credentials")
    if (authority.includes("%")) return Result.fail("PercentInHost")
    const url = URL.parse(text)
    // Also refuses a space or an at sign that the parser derives from another character.
    if (url === null || url.username !== "" || url.password !== "" || url.hostname === "") {
      return Result.fail("Malformed")
    }
    const literal = literalOf(typedHost(authority), url.hostname)
    if (Result.isFailure(literal)) return Result.fail(literal.failure)
    const address = literal.success
    const port = url.port === "" ? (plain ? 80 : 443) : Number(url.port)
    const nameRefusal = address === undefined ? checkHostName(url.hostname) : undefined
    if (nameRefusal !== undefined) return Result.fail(nameRefusal)
    const verdict = address === undefined ? undefined : classifyAddress(rule.addresses, address, port)
    if (isOwn(rule.own, url.hostname, port, verdict)) return Result.fail("OwnHost")
    if (verdict === "NotPublic" || verdict === "Denied") return Result.fail(verdict)
    const openPort = isOpenPort(port)
    const mayBeAllowed = verdict === "Allowed" || (address === undefined && rule.addresses.allow.length > 0)
    if (plain && !mayBeAllowed) return Result.fail("NotHttps")
    if (!openPort && !mayBeAllowed) return Result.fail("RefusedPort")
    return Result.succeed(new PublicUrl({ text, url, address, port, onlyAllowed: plain || !openPort }))
  }

  /** Checks one of the host's resolved addresses; `undefined` if it may be requested. */
  checkAddress(address: NetAddress.IpAddress, rule: UrlRule): UrlRefusal | undefined {
    const verdict = classifyAddress(rule.addresses, address, this.port)
    if (verdict === "Allowed") return undefined
    if (verdict !== "Public") return verdict
    if (!this.requiresAllowedAddress) return undefined
    return this.secure ? "RefusedPort" : "NotHttps"
  }

  /**
   * Scheme, host, port if it is not the scheme's default, and a masked path: `https://otlp.example.com/…`. An empty path is masked too, so
   * that the hint reveals nothing about it.
   */
  get hint(): string {
    return `${this.origin}/…`
  }

  toString(): string {
    return this.hint
  }

  toJSON(): string {
    return this.hint
  }

  [Inspectable.NodeInspectSymbol](): string {
    return this.hint
  }
}

/**
 * Returns the hint of a stored URL, without applying the current rules. For text that is not a URL, which is never stored, returns the mask
 * alone.
 */
export const urlHint = (text: string): string => {
  const url = URL.parse(text)
  return url === null || url.host === "" ? "…" : `${url.protocol}//${url.host}/…`
}
