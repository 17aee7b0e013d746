/** Readers of the variables of single sign-on. */
import { type Array as Arr, Redacted, Result, Schema } from "effect"
import { createPrivateKey } from "node:crypto"
import { describeFirst, describeIssue } from "../../../domain/describeIssue.ts"
import { AccessRule, type ClientKeyAlgorithm } from "../../../domain/identity/SingleSignOnSettings.ts"
import type { Reader } from "./Variable.ts"

/** The most rules of access. */
const MAX_RULES = 500

const decodeRules = Schema.decodeUnknownResult(
  Schema.fromJsonString(Schema.NonEmptyArray(AccessRule).check(Schema.isMaxLength(MAX_RULES))),
  { onExcessProperty: "error" }
)

/** A JSON array of rules. */
export const accessRules: Reader<Arr.NonEmptyReadonlyArray<AccessRule>> = (text) =>
  Result.mapError(decodeRules(text), (error) => {
    const fault = describeFirst(describeIssue(error.issue)).replaceAll(/\s+/gu, " ")
    return `must be a JSON array such as [{"organization":"acme","group":"approvers","preset":"reviewer"}]: ${fault}`
  })

/** Whether a host is this machine. */
const isLoopback = (hostname: string): boolean =>
  hostname === "localhost" || hostname === "[::1]" || /^127(\.\d{1,3}){3}$/u.test(hostname)

/** An https URL without user, query and fragment; http is allowed on this machine, for development and tests. */
export const issuer: Reader<string> = (text) => {
  const url = URL.parse(text)
  const isAllowed =
    url !== null &&
    (url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url.hostname))) &&
    url.username + url.password + url.search + url.hash === ""
  return isAllowed
    ? Result.succeed(text)
    : Result.fail("must be an https URL without user, query and fragment, as the provider states its issuer")
}

/** Whether browsers protect cookies at this address: https, or this machine. */
export const protectsCookies = (publicUrl: string): boolean => {
  const url = URL.parse(publicUrl)
  return url !== null && (url.protocol === "https:" || isLoopback(url.hostname))
}

/** A private key of the client, with the algorithm of its signatures. */
export interface ClientKey {
  readonly pem: Redacted.Redacted
  readonly algorithm: ClientKeyAlgorithm
}

const MIN_RSA_BITS = 2048

const clientKeyAlgorithm = (pem: string): ClientKeyAlgorithm | undefined => {
  const { asymmetricKeyDetails: details, asymmetricKeyType: type } = createPrivateKey(pem)
  if (type === "rsa") return (details?.modulusLength ?? 0) >= MIN_RSA_BITS ? "RS256" : undefined
  if (type === "ec") return details?.namedCurve === "prime256v1" ? "ES256" : undefined
  return type === "ed25519" ? "EdDSA" : undefined
}

/** A private key in PEM. Nothing of it is quoted. */
export const clientKey: Reader<ClientKey> = (text) => {
  const fault = Result.fail(
    "must be a private key in PKCS #8 PEM: RSA of at least 2048 bits, P-256 or Ed25519"
  )
  const pem = `${text.replaceAll("\\n", "\n").trim()}\n`
  if (!pem.startsWith("-----BEGIN PRIVATE KEY-----\n")) return fault
  return Result.try(() => clientKeyAlgorithm(pem)).pipe(
    Result.match({
      onFailure: () => fault,
      onSuccess: (algorithm) =>
        algorithm === undefined
          ? fault
          : Result.succeed({ pem: Redacted.make(pem, { label: "ClientKey" }), algorithm })
    })
  )
}

/** Domains, separated by commas. */
export const emailDomains: Reader<ReadonlyArray<string>> = (text) => {
  const domains = text.split(",").map((domain) => domain.trim().toLowerCase())
  return domains.every((domain) => /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/u.test(domain))
    ? Result.succeed(domains)
    : Result.fail("must be domains such as example.com, separated by commas")
}

/** Scopes separated by blanks, with `openid`. */
export const oauthScopes: Reader<string> = (text) =>
  /^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*$/u.test(text) && text.split(" ").includes("openid")
    ? Result.succeed(text)
    : Result.fail("must be scopes separated by blanks, with openid, such as openid email profile")
