/** Sentences for the operator about the URL of a service and its failures. Hooks use them too, so this loads no command line library. */
import { isProblem } from "../client/connect/Problem.ts"
import { reasonOf, TIMEOUT } from "../client/ServiceUnreachable.ts"

/** Returns the fault of the URL of a flag or variable, with the remedy; undefined if it is a valid base URL. Never quotes the value. */
export const describeUrlFault = (text: string, source: string): string | undefined => {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || (url.protocol !== "https:" && url.protocol !== "http:"))
    return `${source} must be an http or https URL, such as http://127.0.0.1:8080.`
  if (url.username + url.password !== "")
    return `${source} must not contain credentials: remove the part of it before ${url.host}.`
  if (url.search + url.hash !== "")
    return `${source} must not have a query or a fragment: end it after ${url.origin} and the path.`
  return undefined
}

/** Describes a failed connection: the sentence for its reason, with the origin and the name of the flag or variable of the URL. */
type Sentence = (origin: string, source: string) => string

const notTrusted: Sentence = (origin) =>
  `The TLS certificate of ${origin} is not trusted: set NODE_EXTRA_CA_CERTS to a PEM file with the certificate of its authority.`

const closed: Sentence = (origin) =>
  `The connection to ${origin} was closed before the response: check the log of the service and proxies in between, then try again.`

const noRoute: Sentence = (origin, source) =>
  `No network route leads to ${origin}: check this machine's network, or correct ${source}.`

const notConnected: Sentence = (origin, source) =>
  `The connection to ${origin} timed out: check firewalls in between, or correct ${source}.`

const noResponse: Sentence = (origin) =>
  `The service at ${origin} did not respond in time: check its health and its log, then try again.`

/** Sentences by the code of the cause. */
const sentences: Readonly<Record<string, Sentence>> = {
  ECONNREFUSED: (origin, source) => `Nothing listens at ${origin}: start the service there or set ${source}.`,
  ENOTFOUND: (origin, source) => `The host of ${origin} is not in DNS: correct ${source}.`,
  EAI_AGAIN: (origin) =>
    `The DNS lookup of the host of ${origin} failed: check the DNS servers of this machine, then try again.`,
  ECONNRESET: closed,
  EPIPE: closed,
  UND_ERR_SOCKET: closed,
  EHOSTUNREACH: noRoute,
  ENETUNREACH: noRoute,
  EADDRNOTAVAIL: noRoute,
  ETIMEDOUT: notConnected,
  UND_ERR_CONNECT_TIMEOUT: notConnected,
  [TIMEOUT]: noResponse,
  UND_ERR_HEADERS_TIMEOUT: noResponse,
  UND_ERR_BODY_TIMEOUT: noResponse,
  DEPTH_ZERO_SELF_SIGNED_CERT: notTrusted,
  SELF_SIGNED_CERT_IN_CHAIN: notTrusted,
  UNABLE_TO_GET_ISSUER_CERT: notTrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: notTrusted,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: notTrusted,
  CERT_HAS_EXPIRED: (origin) =>
    `The TLS certificate of ${origin} has expired: renew it, or correct the clock of this machine.`,
  CERT_NOT_YET_VALID: (origin) =>
    `The TLS certificate of ${origin} is not valid yet: correct the clock of this machine.`,
  ERR_TLS_CERT_ALTNAME_INVALID: (origin, source) =>
    `The TLS certificate of ${origin} is for another host: set ${source} to a host in the certificate.`
}

const failedHandshake: Sentence = (origin, source) =>
  origin.startsWith("https:")
    ? `The TLS handshake with ${origin} failed: if the service has no TLS there, begin ${source} with http://.`
    : closed(origin, source)

const noHttp: Sentence = (origin, source) =>
  `The server at ${origin} does not speak HTTP: if it has TLS, begin ${source} with https://, otherwise correct it.`

const sentenceOf = (reason: string): Sentence =>
  sentences[reason] ??
  (/^(EPROTO$|ERR_SSL_|ERR_TLS_)/.test(reason)
    ? failedHandshake
    : reason.startsWith("HPE_")
      ? noHttp
      : (origin, source) =>
          `No response from ${origin}${reason === "UNKNOWN" ? "" : ` (${reason})`}: check that Countersign runs there, or correct ${source}.`)

/**
 * Describes why a request got no response, or one that is not of this service, with the URL's origin and what to do. `source` is the flag or
 * variable that sets the URL. Undefined for every other error.
 */
export const describeServiceFailure = (error: unknown, source = "--url"): string | undefined => {
  if (isProblem(error, "SERVICE_UNREACHABLE")) return sentenceOf(error.reason)(error.origin, source)
  if (isProblem(error, "UNEXPECTED_RESPONSE")) {
    return `The server at ${error.origin} gave a response that is not of Countersign's API (status ${error.status}): check that ${source} is the URL of a Countersign of this version.`
  }
  return undefined
}

/** Describes why a request by `fetch` failed, with the URL's origin and what to do. */
export const describeFetchFailure = (error: unknown, url: URL, source: string): string =>
  sentenceOf(reasonOf(error))(url.origin, source)
