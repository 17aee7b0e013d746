import { Data } from "effect"
import { errors } from "undici"
import { urlRefusalDetail, type UrlRefusal } from "../../domain/network/PublicUrl.ts"

/** Why a request got no response. Closed: each reason has its phrase in {@link reasonPhrases}. */
export type EgressReason =
  | "TimedOut"
  | "RefusedUrl"
  | "RefusedAddress"
  | "NameNotFound"
  | "LookupFailed"
  | "ConnectionRefused"
  | "Unreachable"
  | "ConnectTimedOut"
  | "ConnectionClosed"
  | "CertificateName"
  | "CertificateExpired"
  | "CertificateUntrusted"
  | "TlsFailed"
  | "HeadersTooLarge"
  | "MalformedResponse"
  | "RefusedRequest"
  | "HeldBack"
  | "Unknown"

const reasonPhrases: Readonly<Record<EgressReason, string>> = {
  TimedOut: "timed out waiting for a response",
  RefusedUrl: "the URL is no longer accepted",
  RefusedAddress: "the host resolves to an address that is not allowed",
  NameNotFound: "the host name does not resolve",
  LookupFailed: "the DNS lookup of the host failed",
  ConnectionRefused: "connection refused",
  Unreachable: "the host is unreachable",
  ConnectTimedOut: "timed out while connecting",
  ConnectionClosed: "connection closed before a response",
  CertificateName: "the TLS certificate is for another name",
  CertificateExpired: "the TLS certificate has expired or is not valid yet",
  CertificateUntrusted: "the TLS certificate is not trusted",
  TlsFailed: "the TLS handshake failed",
  HeadersTooLarge: "the response headers are too large",
  MalformedResponse: "malformed HTTP response",
  RefusedRequest: "the request cannot be sent with these headers",
  HeldBack: "held back by the rate limit of its network",
  Unknown: "the request failed"
}

/**
 * A request without a response. `phrase` is one of the service's own and safe for `last_error`: it contains nothing
 * that the peer, its name server or its certificate sent.
 */
export class EgressFailed extends Data.TaggedError("EgressFailed")<{ readonly reason: EgressReason }> {
  get phrase(): string {
    return reasonPhrases[this.reason]
  }
  override get message(): string {
    return this.phrase
  }
}

/** Why a URL is refused when it is stored: its text, an address it resolves to, or a failed DNS lookup. */
export type UrlRefusalReason = UrlRefusal | "NameNotFound" | "LookupFailed"

/** A URL refused when it is stored. `phrase` is a sentence that says what to do: the detail of INVALID_URL. */
export class UrlRefused extends Data.TaggedError("UrlRefused")<{ readonly reason: UrlRefusalReason }> {
  get phrase(): string {
    switch (this.reason) {
      case "NameNotFound":
        return "The host name does not resolve. Check its spelling and its DNS records."
      case "LookupFailed":
        return "The DNS lookup of the host failed. Check its DNS records, or try again."
      default:
        return urlRefusalDetail[this.reason]
    }
  }
  override get message(): string {
    return this.phrase
  }
}

/** Error codes of Node's sockets, of TLS and of undici, if a code has one meaning. */
const reasonsByCode: ReadonlyMap<string, EgressReason> = new Map<string, EgressReason>([
  ["ECONNREFUSED", "ConnectionRefused"],
  ["EHOSTUNREACH", "Unreachable"],
  ["ENETUNREACH", "Unreachable"],
  ["EHOSTDOWN", "Unreachable"],
  ["ENETDOWN", "Unreachable"],
  ["EADDRNOTAVAIL", "Unreachable"],
  ["EACCES", "Unreachable"],
  ["EPERM", "Unreachable"],
  ["ETIMEDOUT", "ConnectTimedOut"],
  ["UND_ERR_CONNECT_TIMEOUT", "ConnectTimedOut"],
  ["ECONNRESET", "ConnectionClosed"],
  ["ECONNABORTED", "ConnectionClosed"],
  ["EPIPE", "ConnectionClosed"],
  ["UND_ERR_SOCKET", "ConnectionClosed"],
  ["UND_ERR_DESTROYED", "ConnectionClosed"],
  ["UND_ERR_CLOSED", "ConnectionClosed"],
  ["ERR_TLS_CERT_ALTNAME_INVALID", "CertificateName"],
  ["CERT_HAS_EXPIRED", "CertificateExpired"],
  ["CERT_NOT_YET_VALID", "CertificateExpired"],
  ["DEPTH_ZERO_SELF_SIGNED_CERT", "CertificateUntrusted"],
  ["SELF_SIGNED_CERT_IN_CHAIN", "CertificateUntrusted"],
  ["UNABLE_TO_GET_ISSUER_CERT", "CertificateUntrusted"],
  ["UNABLE_TO_GET_ISSUER_CERT_LOCALLY", "CertificateUntrusted"],
  ["UNABLE_TO_VERIFY_LEAF_SIGNATURE", "CertificateUntrusted"],
  ["CERT_SIGNATURE_FAILURE", "CertificateUntrusted"],
  ["CERT_CHAIN_TOO_LONG", "CertificateUntrusted"],
  ["CERT_REVOKED", "CertificateUntrusted"],
  ["CERT_UNTRUSTED", "CertificateUntrusted"],
  ["CERT_REJECTED", "CertificateUntrusted"],
  ["EE_KEY_TOO_SMALL", "CertificateUntrusted"],
  ["CA_KEY_TOO_SMALL", "CertificateUntrusted"],
  ["CA_MD_TOO_WEAK", "CertificateUntrusted"],
  ["INVALID_CA", "CertificateUntrusted"],
  ["INVALID_PURPOSE", "CertificateUntrusted"],
  ["PATH_LENGTH_EXCEEDED", "CertificateUntrusted"],
  ["EPROTO", "TlsFailed"],
  ["UND_ERR_HEADERS_OVERFLOW", "HeadersTooLarge"],
  ["UND_ERR_RES_CONTENT_LENGTH_MISMATCH", "MalformedResponse"],
  ["UND_ERR_INVALID_ARG", "RefusedRequest"],
  ["UND_ERR_REQ_CONTENT_LENGTH_MISMATCH", "RefusedRequest"]
])

/**
 * undici's messages for a response that violates HTTP while the connection stays open, such as an unrequested 100 or
 * 101.
 */
const protocolErrorMessages: ReadonlySet<string> = new Set(["bad response", "bad upgrade"])

/**
 * Maps a transport error to a reason by its class and code. Its message may contain text from the peer and is not
 * passed on.
 */
export const toEgressReason = (error: unknown): EgressReason => {
  if (error instanceof errors.HTTPParserError) return "MalformedResponse"
  if (!(error instanceof Error) || !("code" in error) || typeof error.code !== "string") return "Unknown"
  if (error.code === "UND_ERR_SOCKET" && protocolErrorMessages.has(error.message)) return "MalformedResponse"
  const known = reasonsByCode.get(error.code)
  if (known !== undefined) return known
  return error.code.startsWith("ERR_SSL_") || error.code.startsWith("ERR_TLS_") ? "TlsFailed" : "Unknown"
}

/** Codes of a connection that the other side has closed. */
const closedByPeer: ReadonlySet<unknown> = new Set(["ECONNRESET", "EPIPE", "UND_ERR_SOCKET"])

/** Whether the other side has closed the connection, and this one has not. */
export const isClosedByPeer = (error: Error): boolean =>
  toEgressReason(error) === "ConnectionClosed" && "code" in error && closedByPeer.has(error.code)
