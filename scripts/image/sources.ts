/**
 * What images are made of besides this repository: Debian's packages (`debian.json` has their versions and digests) and Node.js (npm's, by
 * `scripts/node/package-lock.json`). Each is downloaded once, and used only if it has the digest of its lockfile.
 */
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import path from "node:path"
import { gunzipSync } from "node:zlib"
import { Schema } from "effect"
import { fileURLToPath } from "node:url"
import type { FileTree } from "./FileTree.ts"
import { readTar } from "./tar.ts"

export const root = fileURLToPath(new URL("../..", import.meta.url))

/** Downloads and compressed layers, which later builds use again. */
export const cache = path.join(root, "node_modules", ".cache", "image")

/** Architectures as OCI names them. */
export const architectures = ["amd64", "arm64"] as const
export type Architecture = (typeof architectures)[number]

/** That of this machine. */
export const ownArchitecture: Architecture = process.arch === "arm64" ? "arm64" : "amd64"

/** A source that cannot be had, such as without a network. */
export class SourceMissing extends Error {}

const DebianPackage = Schema.Struct({
  name: Schema.String,
  version: Schema.String,
  /** Below the root of a mirror. */
  path: Schema.String,
  sha256: Schema.String
})
export type DebianPackage = typeof DebianPackage.Type

/** Packages of one architecture: those of every image, and those that only the image with PostgreSQL needs. */
const DebianPackages = Schema.Struct({
  system: Schema.Array(DebianPackage),
  postgres: Schema.Array(DebianPackage)
})

export const DebianLock = Schema.fromJsonString(
  Schema.Struct({
    release: Schema.String,
    /** The time of the choice, at which snapshot.debian.org has every package. */
    snapshot: Schema.String,
    packages: Schema.Struct({ amd64: DebianPackages, arm64: DebianPackages })
  })
)

export const debianLockFile = path.join(root, "scripts", "image", "debian.json")

export const readDebianLock = () => Schema.decodeUnknownSync(DebianLock)(readFileSync(debianLockFile, "utf8"))

const DOWNLOAD_TIMEOUT = 60_000
/** Larger than any package here; a mirror must not fill the memory. */
const MAX_BYTES = 256 * 1024 * 1024

const messageOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}

const download = async (url: string): Promise<Buffer> => {
  const response = await fetch(url, { signal: AbortSignal.timeout(DOWNLOAD_TIMEOUT) })
  if (!response.ok) throw new Error(`HTTP status ${response.status}`)
  if (Number(response.headers.get("content-length")) > MAX_BYTES) throw new Error("it is too large")
  return Buffer.from(await response.arrayBuffer())
}

/** Puts a file into the cache. One that is half written never has the final name. */
export const keep = (name: string, content: Uint8Array): void => {
  const place = path.join(cache, name)
  mkdirSync(path.dirname(place), { recursive: true })
  const temporary = `${place}.${process.pid}`
  writeFileSync(temporary, content)
  renameSync(temporary, place)
}

/** A file of the cache; undefined if it is missing. */
export const kept = (name: string): Buffer | undefined => {
  try {
    return readFileSync(path.join(cache, name))
  } catch {
    return undefined
  }
}

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex")

/** A package's file. Its digest is in the lockfile, so the connection to a mirror need not be trusted. */
export const fetchDebianPackage = async (
  { name, path: file, sha256: wanted, version }: DebianPackage,
  snapshot: string
): Promise<Buffer> => {
  const known = kept(path.join("debian", wanted))
  if (known !== undefined && sha256(known) === wanted) return known
  const given = process.env["DEBIAN_MIRROR"]
  const mirrors =
    given === undefined
      ? [
          "http://deb.debian.org/debian",
          "http://deb.debian.org/debian-security",
          // Mirrors remove a package some time after a newer one has replaced it.
          `http://snapshot.debian.org/archive/debian/${snapshot}`,
          `http://snapshot.debian.org/archive/debian-security/${snapshot}`
        ]
      : [given]
  const faults: Array<string> = []
  for (const mirror of mirrors) {
    try {
      const bytes = await download(`${mirror}/${file}`)
      if (sha256(bytes) !== wanted) throw new Error("its digest is not that of scripts/image/debian.json")
      keep(path.join("debian", wanted), bytes)
      return bytes
    } catch (error) {
      faults.push(`${mirror}: ${messageOf(error)}`)
    }
  }
  throw new SourceMissing(
    `the Debian package ${name} ${version} cannot be downloaded (${faults.join("; ")}). Without a network, set DEBIAN_MIRROR to ` +
      "a mirror; if the version is gone, choose the current ones with: node scripts/image.ts --update-packages"
  )
}

const NodeLock = Schema.fromJsonString(
  Schema.Struct({
    packages: Schema.Record(
      Schema.String,
      Schema.Struct({
        version: Schema.optionalKey(Schema.String),
        integrity: Schema.optionalKey(Schema.String)
      })
    )
  })
)

/** Node.js as npm has it. */
export interface NodePackage {
  readonly version: string
  readonly name: string
  /** `sha512-` and the digest of npm's tarball in base64. */
  readonly integrity: string
}

/** The package with Node.js for an architecture. */
export const nodePackage = (architecture: Architecture): NodePackage => {
  const name = `node-linux-${architecture === "amd64" ? "x64" : architecture}`
  const { packages } = Schema.decodeUnknownSync(NodeLock)(
    readFileSync(path.join(root, "scripts", "node", "package-lock.json"), "utf8")
  )
  const { integrity, version } = packages[`node_modules/${name}`] ?? {}
  if (integrity === undefined || version === undefined)
    throw new Error(`scripts/node/package-lock.json lacks ${name}`)
  return { name, version, integrity }
}

/** Packs a package of the registry that npm is configured for. */
const pack = ({ name, version }: NodePackage): Buffer => {
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(path.join(cache, "pack-"))
  try {
    const { error, status, stderr } = spawnSync(
      "npm",
      ["pack", `${name}@${version}`, "--pack-destination", folder, "--silent", "--ignore-scripts"],
      { cwd: folder, encoding: "utf8" }
    )
    const [packed] = readdirSync(folder)
    if (status !== 0 || packed === undefined)
      throw new SourceMissing(
        `npm cannot download ${name} ${version}: ${error?.message ?? stderr.trim().split("\n")[0]}`
      )
    return readFileSync(path.join(folder, packed))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The files of the package with Node.js. */
export const fetchNode = (architecture: Architecture): FileTree => {
  const wanted = nodePackage(architecture)
  const digestOf = (bytes: Uint8Array) => `sha512-${createHash("sha512").update(bytes).digest("base64")}`
  const name = path.join("npm", `${wanted.name}-${wanted.version}.tgz`)
  const known = kept(name)
  const bytes = known !== undefined && digestOf(known) === wanted.integrity ? known : pack(wanted)
  if (digestOf(bytes) !== wanted.integrity)
    throw new Error(`${wanted.name} ${wanted.version} has not the digest of scripts/node/package-lock.json`)
  if (bytes !== known) keep(name, bytes)
  return readTar(gunzipSync(bytes))
}
