import { createHash, createSecretKey, type KeyObject } from "node:crypto"
import { type Array as Arr, Effect, Redacted, Result, Schema } from "effect"
import { SecureRandom } from "effect/crypto"

const MASTER_KEY_BYTES = 32

/** Bytes of a key id in a sealed value. With 8 bytes, two keys of one ring do not get the same id by chance. */
export const KEY_ID_BYTES = 8

/** Keys in one ring. A rotation needs two; more than a few mean that old values were never resealed. */
const MAX_KEYS = 16

/** One master key, ready for use. Its id is the first 8 bytes, in hex, of a SHA-256 of the key, and reveals nothing about it. */
export interface MasterKey {
  readonly id: string
  readonly key: KeyObject
}

/** The configured master keys: `primary` seals, all unseal. */
export interface KeyRing {
  readonly primary: MasterKey
  readonly byId: ReadonlyMap<string, MasterKey>
}

/** The configured master keys are invalid. `position` counts from 1, newest first. The message never contains a key. */
export class MasterKeyInvalid extends Schema.TaggedError<MasterKeyInvalid>()("MasterKeyInvalid", {
  position: Schema.Int,
  count: Schema.Int,
  problem: Schema.String
}) {
  override get message(): string {
    const which = this.count > 1 ? `Master key ${this.position} of ${this.count}` : "The master key"
    return `${which} ${this.problem}; a master key is 32 random bytes in base64, as from: openssl rand -base64 32`
  }
}

/** Decodes one key, or returns the problem with its text. Accepts standard and URL-safe base64, with or without `=`. */
const decode = (text: string): Result.Result<Buffer, string> => {
  if (text === "") return Result.fail("is empty")
  if (/^[0-9a-fA-F]{64}$/.test(text)) return Result.fail("is in hex, not in base64")
  if (!/^[0-9A-Za-z+/_-]+={0,2}$/.test(text)) return Result.fail("is not base64")
  const bytes = Buffer.from(text, "base64")
  if (bytes.length !== MASTER_KEY_BYTES) {
    return Result.fail(`decodes to ${bytes.length} ${bytes.length === 1 ? "byte" : "bytes"}, not 32`)
  }
  if (bytes.every((byte) => byte === bytes[0])) return Result.fail("is one byte repeated, not random")
  return Result.succeed(bytes)
}

const idOf = (bytes: Uint8Array): string =>
  createHash("sha256")
    .update("countersign-master-key-v1\0")
    .update(bytes)
    .digest()
    .subarray(0, KEY_ID_BYTES)
    .toString("hex")

/** Builds a key ring from master keys in base64, newest first. */
export const fromTexts = (
  texts: Arr.NonEmptyReadonlyArray<Redacted.Redacted<string>>
): Result.Result<KeyRing, MasterKeyInvalid> => {
  const count = texts.length
  const invalid = (position: number, problem: string) =>
    Result.fail(new MasterKeyInvalid({ position, count, problem }))
  if (count > MAX_KEYS) return invalid(MAX_KEYS + 1, `exceeds the limit of ${MAX_KEYS} keys`)

  const byId = new Map<string, MasterKey>()
  const read = (
    position: number,
    text: Redacted.Redacted<string>
  ): Result.Result<MasterKey, MasterKeyInvalid> => {
    const bytes = decode(Redacted.value(text).trim())
    if (Result.isFailure(bytes)) return invalid(position, bytes.failure)
    const id = idOf(bytes.success)
    if (byId.has(id)) return invalid(position, "is in the list twice")
    const master = { id, key: createSecretKey(bytes.success) }
    byId.set(id, master)
    return Result.succeed(master)
  }
  const [newest, ...older] = texts
  const primary = read(1, newest)
  if (Result.isFailure(primary)) return Result.fail(primary.failure)
  for (const [index, text] of older.entries()) {
    const key = read(index + 2, text)
    if (Result.isFailure(key)) return Result.fail(key.failure)
  }
  return Result.succeed({ primary: primary.success, byId })
}

/**
 * Splits the configured list of master keys: comma-separated, newest first, spaces around a key ignored. {@link fromTexts} validates the
 * keys themselves.
 */
export const split = (
  list: Redacted.Redacted<string>
): Arr.NonEmptyReadonlyArray<Redacted.Redacted<string>> => {
  const [newest = "", ...older] = Redacted.value(list).split(",")
  const wrap = (text: string) => Redacted.make(text.trim(), { label: "MasterKey" })
  return [wrap(newest), ...older.map(wrap)]
}

/** Generates a master key, in base64. */
export const generate: Effect.Effect<Redacted.Redacted<string>> = Effect.sync(() =>
  Redacted.make(Buffer.from(SecureRandom.randomBytesUnsafe(MASTER_KEY_BYTES)).toString("base64"), {
    label: "MasterKey"
  })
)
