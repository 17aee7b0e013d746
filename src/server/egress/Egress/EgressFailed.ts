import { Data } from "effect"
import { errors } from "undici"
import { urlRefusalDetail, type UrlRefusal } from "../../../domain/network/PublicUrl.ts"

/** Why a request had no answer. Closed: each reason has its phrase in {@link reasonPhrases}. */
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
  | "MalformedAnswer"
  | "RefusedRequest"
  | "Unknown"

const reasonPhrases: Readonly<Record<EgressReason, string>> = {
  TimedOut: "timed out before an answer came",
  RefusedUrl: "the URL is not accepted any more",
  RefusedAddress: "the host is at an address that is not open to requests",
  NameNotFound: "the host's name does not resolve",
  LookupFailed: "the host's name could not be looked up",
  ConnectionRefused: "connection refused",
  Unreachable: "the host cannot be reached",
  ConnectTimedOut: "timed out while connecting",
  ConnectionClosed: "the connection was closed before an answer came",
  CertificateName: "the TLS certificate is for another name",
  CertificateExpired: "the TLS certificate has expired or is not valid yet",
  CertificateUntrusted: "the TLS certificate is not trusted",
  TlsFailed: "the TLS handshake failed",
  HeadersTooLarge: "the answer's headers are too large",
  MalformedAnswer: "the answer is not well-formed HTTP",
  RefusedRequest: "the request cannot be sent with these headers",
  Unknown: "the request failed"
}

/**
 * A request that had no answer. Its `phrase` is one of ours and fit for `last_error`: nothing of what the peer, its
 * name server or its certificate said is in it.
 */
export class EgressFailed extends Data.TaggedError("EgressFailed")<{ readonly reason: EgressReason }> {
  get phrase(): string {
    return reasonPhrases[this.reason]
  }
  override get message(): string {
    return this.phrase
  }
}

/** Why a URL is refused at creation: by its text, by an address it resolves to, or because it does not resolve. */
export type UrlRefusalReason = UrlRefusal | "NameNotFound" | "LookupFailed"

/** A URL that is refused at creation. Its `phrase` is a sentence that says what to do: the detail of INVALID_URL. */
export class UrlRefused extends Data.TaggedError("UrlRefused")<{ readonly reason: UrlRefusalReason }> {
  get phrase(): string {
    switch (this.reason) {
      case "NameNotFound":
        return "The host's name does not resolve to an address: check its spelling and its DNS records."
      case "LookupFailed":
        return "The host's name could not be looked up: check its DNS records, or try again."
      default:
        return urlRefusalDetail[this.reason]
    }
  }
  override get message(): string {
    return this.phrase
  }
}

/** Codes of Node's sockets and TLS and of undici, where one code has one meaning. */
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
  ["INVALID_CA", "CertificateUntrusted"],
  ["INVALID_PURPOSE", "CertificateUntrusted"],
  ["PATH_LENGTH_EXCEEDED", "CertificateUntrusted"],
  ["EPROTO", "TlsFailed"],
  ["UND_ERR_HEADERS_OVERFLOW", "HeadersTooLarge"],
  ["UND_ERR_RES_CONTENT_LENGTH_MISMATCH", "MalformedAnswer"],
  ["UND_ERR_INVALID_ARG", "RefusedRequest"],
  ["UND_ERR_REQ_CONTENT_LENGTH_MISMATCH", "RefusedRequest"]
])

/** undici's own words for an answer that breaks HTTP's rules while the connection stands: 100 and 101 unasked. */
const protocolErrorMessages: ReadonlySet<string> = new Set(["bad response", "bad upgrade"])

/** Reads an error of the transport by its kind and code. Its message may hold the peer's words and goes no further. */
export const toEgressReason = (error: unknown): EgressReason => {
  if (error instanceof errors.HTTPParserError) return "MalformedAnswer"
  if (!(error instanceof Error) || !("code" in error) || typeof error.code !== "string") return "Unknown"
  if (error.code === "UND_ERR_SOCKET" && protocolErrorMessages.has(error.message)) return "MalformedAnswer"
  const known = reasonsByCode.get(error.code)
  if (known !== undefined) return known
  return error.code.startsWith("ERR_SSL_") || error.code.startsWith("ERR_TLS_") ? "TlsFailed" : "Unknown"
}
