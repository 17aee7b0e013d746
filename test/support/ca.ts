import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto"
import { isIP } from "node:net"
import { NetAddress } from "effect/net"

/**
 * Creates test certificates: X.509 v3 (RFC 5280) with P-256 keys, encoded in DER here, so that tests need neither external tools nor
 * certificate files that expire.
 */

/** The certificate and private key of a TLS server, in PEM. */
export interface Identity {
  readonly cert: string
  readonly key: string
}

/** Host names and addresses of a certificate, and its validity. Default: yesterday to tomorrow. */
export interface Subject {
  readonly hosts: ReadonlyArray<string>
  readonly from?: Date
  readonly to?: Date
}

/** A certificate authority. */
export interface Authority {
  /** The root certificate in PEM, for the client to trust. */
  readonly certificate: string
  readonly issue: (subject: Subject) => Identity
}

const day = 86_400_000

const der = (tag: number, ...parts: ReadonlyArray<Uint8Array>): Buffer => {
  const content = Buffer.concat(parts)
  const length =
    content.length < 0x80
      ? [content.length]
      : content.length < 0x100
        ? [0x81, content.length]
        : [0x82, content.length >> 8, content.length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...length]), content])
}

const sequence = (...parts: ReadonlyArray<Uint8Array>) => der(0x30, ...parts)
const explicit = (index: number, part: Uint8Array) => der(0xa0 | index, part)
const octetString = (part: Uint8Array) => der(0x04, part)
const bitString = (part: Uint8Array) => der(0x03, Buffer.from([0]), part)
const boolean = (value: boolean) => der(0x01, Buffer.from([value ? 0xff : 0]))
const integer = (bytes: Uint8Array) => der(0x02, bytes)
const utf8 = (text: string) => der(0x0c, Buffer.from(text))
/** UTCTime, which covers years up to 2049. */
const time = (date: Date) =>
  der(0x17, Buffer.from(`${date.toISOString().slice(2, 19).replace(/[-T:]/g, "")}Z`))

const oids = {
  ecdsaWithSha256: "2a8648ce3d040302",
  commonName: "550403",
  subjectKey: "551d0e",
  subjectAltName: "551d11",
  basicConstraints: "551d13",
  authorityKey: "551d23"
} as const
const oid = (name: keyof typeof oids) => der(0x06, Buffer.from(oids[name], "hex"))

const nameOf = (text: string) => sequence(der(0x31, sequence(oid("commonName"), utf8(text))))
const extension = (name: keyof typeof oids, value: Uint8Array) => sequence(oid(name), octetString(value))
const spki = (key: KeyObject): Buffer => key.export({ type: "spki", format: "der" })
const keyId = (key: KeyObject) => createHash("sha256").update(spki(key)).digest().subarray(0, 20)

const generalName = (host: string): Buffer => {
  if (isIP(host) === 0) return der(0x82, Buffer.from(host))
  const ip = NetAddress.ipFromStringUnsafe(host)
  return der(
    0x87,
    Uint8Array.from(NetAddress.isIpv4Address(ip) ? NetAddress.ipv4ToOctets(ip) : NetAddress.ipv6ToOctets(ip))
  )
}

const pem = (bytes: Buffer): string =>
  `-----BEGIN CERTIFICATE-----\n${(bytes.toString("base64").match(/.{1,64}/g) ?? []).join("\n")}\n-----END CERTIFICATE-----\n`

interface Signer {
  readonly name: string
  readonly keys: { readonly privateKey: KeyObject; readonly publicKey: KeyObject }
}

const signer = (name: string): Signer => ({
  name,
  keys: generateKeyPairSync("ec", { namedCurve: "P-256" })
})

const certify = (issuer: Signer, to: Signer, subject: Subject, isAuthority: boolean): string => {
  const algorithm = sequence(oid("ecdsaWithSha256"))
  const extensions = [
    extension("basicConstraints", isAuthority ? sequence(boolean(true)) : sequence()),
    extension("subjectKey", octetString(keyId(to.keys.publicKey))),
    extension("authorityKey", sequence(der(0x80, keyId(issuer.keys.publicKey)))),
    ...(subject.hosts.length > 0
      ? [extension("subjectAltName", sequence(...subject.hosts.map(generalName)))]
      : [])
  ]
  const serial = randomBytes(8)
  serial[0] = 1
  const toBeSigned = sequence(
    explicit(0, integer(Buffer.from([2]))),
    integer(serial),
    algorithm,
    nameOf(issuer.name),
    sequence(
      time(subject.from ?? new Date(Date.now() - day)),
      time(subject.to ?? new Date(Date.now() + day))
    ),
    nameOf(to.name),
    spki(to.keys.publicKey),
    explicit(3, sequence(...extensions))
  )
  return pem(sequence(toBeSigned, algorithm, bitString(sign("sha256", toBeSigned, issuer.keys.privateKey))))
}

const identity = (of: Signer, cert: string): Identity => ({
  cert,
  key: of.keys.privateKey.export({ type: "pkcs8", format: "pem" }).toString()
})

/** Creates a certificate authority that no system trusts. */
export const makeAuthority = (): Authority => {
  const own = signer("Test authority")
  return {
    certificate: certify(own, own, { hosts: [] }, true),
    issue: (subject) => {
      const leaf = signer("Test receiver")
      return identity(leaf, certify(own, leaf, subject, false))
    }
  }
}

/** Creates a self-signed certificate. */
export const selfSigned = (subject: Subject): Identity => {
  const own = signer("Self-signed")
  return identity(own, certify(own, own, subject, false))
}
