import { type Array as Arr, Context, Effect, Layer, Option, Redacted, Result, Schema } from "effect"
import * as KeyRing from "./KeyRing.ts"
import * as Ed25519 from "./SecretBox/Ed25519.ts"
import * as Sealed from "./SecretBox/Sealed.ts"
import * as Signature from "./SecretBox/Signature.ts"

export type { PublicKey } from "./SecretBox/Ed25519.ts"
export type { Place } from "./SecretBox/Sealed.ts"
export { MasterKeyInvalid } from "./KeyRing.ts"

/**
 * A stored secret cannot be unsealed: the key ring lacks its key, or the bytes were altered, truncated or moved. API callers cannot fix
 * this, so services turn it into a defect; a rotation of the master key reports it. The message names the place and the key's id, which
 * are not secret.
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
        return `The secret in ${place} cannot be unsealed with master key ${this.key_id}: it was altered, or sealed for another place`
    }
  }
}

/**
 * Seals and unseals stored secrets with AES-256-GCM in this process, so that no plaintext reaches the database, its log, its backups or its
 * replicas. A value can be unsealed only at the place that it was sealed for. Signs texts with HMAC-SHA256, or with Ed25519 for others to verify.
 */
export class SecretBox extends Context.Service<
  SecretBox,
  {
    /** Seals a text for a place, with the newest key. */
    readonly seal: (place: Sealed.Place, plaintext: Redacted.Redacted<string>) => Effect.Effect<Uint8Array>
    /** Unseals a text at its place. */
    readonly unseal: (
      place: Sealed.Place,
      sealed: Uint8Array
    ) => Effect.Effect<Redacted.Redacted<string>, SecretUnreadable>
    /** Seals bytes, such as payloads stored for a retry. The result is 37 bytes longer. */
    readonly sealBytes: (place: Sealed.Place, plaintext: Uint8Array) => Effect.Effect<Uint8Array>
    /** Unseals bytes at their place. */
    readonly unsealBytes: (
      place: Sealed.Place,
      sealed: Uint8Array
    ) => Effect.Effect<Uint8Array, SecretUnreadable>
    /** Reseals a value with the newest key; none if that key sealed it already. */
    readonly reseal: (
      place: Sealed.Place,
      sealed: Uint8Array
    ) => Effect.Effect<Option.Option<Uint8Array>, SecretUnreadable>
    /** Signs a text for a purpose, with the newest key. */
    readonly sign: (purpose: Signature.Purpose, text: string) => string
    /** Whether a key in the ring made this signature of the text for this purpose. */
    readonly isSigned: (purpose: Signature.Purpose, text: string, signature: string) => boolean
    /** Signs bytes with Ed25519, with the key pair of the newest master key. Anyone can verify it by `publicKeys`. */
    readonly signPublicly: (content: Uint8Array) => Uint8Array
    /** The public keys of `signPublicly`, newest first: the first signs. */
    readonly publicKeys: Arr.NonEmptyReadonlyArray<Ed25519.PublicKey>
    /** The id of the key that sealed a value; none if the value is malformed. The first nine bytes suffice: `substr(secret, 1, 9)`. */
    readonly keyIdOf: (sealed: Uint8Array) => Option.Option<string>
    /** The ids of the keys in the ring, newest first: the first seals, all unseal. */
    readonly keyIds: Arr.NonEmptyReadonlyArray<string>
    /** The first nine bytes of every value that the newest key sealed. A row with another `substr(secret, 1, 9)` needs `reseal`. */
    readonly primaryPrefix: Uint8Array
  }
>()("countersign/server/secrets/SecretBox") {
  /** Uses a ring of master keys, each 32 bytes in base64, newest first: the first seals, all unseal. */
  static readonly layer = (options: {
    readonly masterKeys: Arr.NonEmptyReadonlyArray<Redacted.Redacted<string>>
  }): Layer.Layer<SecretBox, KeyRing.MasterKeyInvalid> =>
    Layer.effect(SecretBox, Effect.map(Effect.fromResult(KeyRing.fromTexts(options.masterKeys)), make))
}

/** Generates a master key, in base64. */
export const generateMasterKey = KeyRing.generate

const make = (ring: KeyRing.KeyRing): SecretBox["Service"] => {
  const primary = ring.primary
  const [, ...older] = ring.byId.values()

  const unsealOrFail = (
    place: Sealed.Place,
    sealed: Uint8Array
  ): Result.Result<Uint8Array, SecretUnreadable> =>
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

  // Without spans: each of these takes a few microseconds and runs at least once per delivery.
  return SecretBox.of({
    seal: (place, plaintext) =>
      Effect.sync(() => Sealed.seal(primary, place, Buffer.from(Redacted.value(plaintext)))),
    unseal: (place, sealed) =>
      Effect.suspend(() => Effect.fromResult(unsealOrFail(place, sealed))).pipe(
        Effect.map((bytes) => Redacted.make(Buffer.from(bytes).toString("utf8"), { label: "SealedSecret" }))
      ),
    sealBytes: (place, plaintext) => Effect.sync(() => Sealed.seal(primary, place, plaintext)),
    unsealBytes: (place, sealed) => Effect.suspend(() => Effect.fromResult(unsealOrFail(place, sealed))),
    reseal: (place, sealed) =>
      Effect.suspend(() =>
        Sealed.keyIdOf(sealed) === primary.id
          ? Effect.succeedNone
          : Effect.map(Effect.fromResult(unsealOrFail(place, sealed)), (plaintext) =>
              Option.some(Sealed.seal(primary, place, plaintext))
            )
      ),
    sign: (purpose, text) => Signature.sign(primary, purpose, text),
    isSigned: (purpose, text, signature) => Signature.isSignedBy(ring, purpose, text, signature),
    keyIdOf: (sealed) => Option.fromNullOr(Sealed.keyIdOf(sealed)),
    signPublicly: (content) => Ed25519.signWith(primary, content),
    publicKeys: [Ed25519.publicKeyOf(primary), ...older.map(Ed25519.publicKeyOf)],
    keyIds: [primary.id, ...older.map(({ id }) => id)],
    primaryPrefix: Sealed.prefixOf(primary)
  })
}
