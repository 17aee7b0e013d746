import { type Array as Arr, Context, Effect, Layer, Option, Redacted, Result, Schema } from "effect"
import * as KeyRing from "./SecretBox/KeyRing.ts"
import * as Sealed from "./SecretBox/Sealed.ts"

export type { Place } from "./SecretBox/Sealed.ts"
export { MasterKeyInvalid } from "./SecretBox/KeyRing.ts"

/**
 * A stored secret does not open: the ring lacks its key, or the bytes were altered, cut or moved. No caller of the API can
 * mend that, so services let it die; the start-up check, `doctor` and a re-encryption choose. The message names the place
 * and the key's id, which are no secrets.
 */
export class SecretUnreadable extends Schema.TaggedError<SecretUnreadable>()("SecretUnreadable", {
  reason: Schema.Literals(["malformed", "unknown_key", "not_authentic"]),
  org_id: Schema.String,
  table: Schema.String,
  row_id: Schema.String,
  column: Schema.String,
  key_id: Schema.NullOr(Schema.String)
}) {
  override get message(): string {
    const place = `${this.table}.${this.column} of ${this.row_id} (${this.org_id})`
    switch (this.reason) {
      case "malformed":
        return `The secret in ${place} is not in the format of a sealed value`
      case "unknown_key":
        return `The secret in ${place} was sealed with master key ${this.key_id}, which is not configured`
      case "not_authentic":
        return `The secret in ${place} does not open with master key ${this.key_id}: it was altered, or belongs to another place`
    }
  }
}

/**
 * Seals secrets for the store and opens them: AES-256-GCM in this process, so that neither the database nor its
 * log, backup or replica sees a plain value. A value opens only at the place it was sealed for.
 */
export class SecretBox extends Context.Service<
  SecretBox,
  {
    /** Seals a text for its place, with the newest key. */
    readonly seal: (place: Sealed.Place, plaintext: Redacted.Redacted<string>) => Effect.Effect<Uint8Array>
    /** Opens a sealed text at its place. */
    readonly unseal: (
      place: Sealed.Place,
      sealed: Uint8Array
    ) => Effect.Effect<Redacted.Redacted<string>, SecretUnreadable>
    /** Seals bytes: payloads that are kept for a replay. Adds 37 bytes. */
    readonly sealBytes: (place: Sealed.Place, plaintext: Uint8Array) => Effect.Effect<Uint8Array>
    /** Opens sealed bytes. */
    readonly unsealBytes: (
      place: Sealed.Place,
      sealed: Uint8Array
    ) => Effect.Effect<Uint8Array, SecretUnreadable>
    /** Seals a value anew with the newest key; none where it already is. */
    readonly reseal: (
      place: Sealed.Place,
      sealed: Uint8Array
    ) => Effect.Effect<Option.Option<Uint8Array>, SecretUnreadable>
    /** The id of the key that a value was sealed with. Its first nine bytes are enough: `substr(secret, 1, 9)`. */
    readonly keyIdOf: (sealed: Uint8Array) => Option.Option<string>
    /** The ids of the keys that can be read with, newest first: the first is the one that writes. */
    readonly keyIds: Arr.NonEmptyReadonlyArray<string>
    /** The first nine bytes of every value that the newest key sealed. A row whose `substr(secret, 1, 9)` differs waits for `reseal`. */
    readonly writingPrefix: Uint8Array
  }
>()("countersign/server/secrets/SecretBox") {
  /** A box over a ring of master keys, each 32 bytes in base64, newest first: the first writes, all read. */
  static readonly layer = (options: {
    readonly masterKeys: Arr.NonEmptyReadonlyArray<Redacted.Redacted<string>>
  }): Layer.Layer<SecretBox, KeyRing.MasterKeyInvalid> =>
    Layer.effect(SecretBox, Effect.map(Effect.fromResult(KeyRing.fromTexts(options.masterKeys)), make))
}

/** A new master key, in base64, for a store that has none. */
export const generateMasterKey = KeyRing.generate

const make = (ring: KeyRing.KeyRing): SecretBox["Service"] => {
  const writing = ring.writing
  const [, ...older] = ring.byId.keys()

  const openOrFail = (place: Sealed.Place, sealed: Uint8Array): Result.Result<Uint8Array, SecretUnreadable> =>
    Result.mapError(
      Sealed.unseal(ring, place, sealed),
      (reason) =>
        new SecretUnreadable({
          reason,
          org_id: place.org_id,
          table: place.table,
          row_id: place.row_id,
          column: place.column,
          key_id: Sealed.keyIdOf(sealed)
        })
    )

  // No spans on any of these: a few microseconds of arithmetic, once or more for every delivery.
  return SecretBox.of({
    seal: (place, plaintext) =>
      Effect.sync(() => Sealed.seal(writing, place, Buffer.from(Redacted.value(plaintext)))),
    unseal: (place, sealed) =>
      Effect.suspend(() => Effect.fromResult(openOrFail(place, sealed))).pipe(
        Effect.map((bytes) => Redacted.make(Buffer.from(bytes).toString("utf8"), { label: "SealedSecret" }))
      ),
    sealBytes: (place, plaintext) => Effect.sync(() => Sealed.seal(writing, place, plaintext)),
    unsealBytes: (place, sealed) => Effect.suspend(() => Effect.fromResult(openOrFail(place, sealed))),
    reseal: (place, sealed) =>
      Effect.suspend(() =>
        Sealed.keyIdOf(sealed) === writing.id
          ? Effect.succeedNone
          : Effect.map(Effect.fromResult(openOrFail(place, sealed)), (plaintext) =>
              Option.some(Sealed.seal(writing, place, plaintext))
            )
      ),
    keyIdOf: (sealed) => Option.fromNullOr(Sealed.keyIdOf(sealed)),
    keyIds: [writing.id, ...older],
    writingPrefix: Sealed.prefixOf(writing)
  })
}
