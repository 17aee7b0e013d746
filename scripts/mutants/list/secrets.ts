/** Mutants of stored secrets: sealing, the key ring and the rotation of the master key. */
import type { ListedMutant } from "../list.ts"

const sealed = "server/secrets/SecretBox/Sealed.ts"
const boxTests = ["server/secrets/SecretBox.test.ts"]
const rotationTests = ["server/secrets/MasterKeys.test.ts"]
const fileTests = ["server/secrets/MasterKeyFile.test.ts"]
const rotation = "server/secrets/MasterKeys.ts"

export const secrets: ReadonlyArray<ListedMutant> = [
  { file: sealed, from: "place.org_id,", to: '"",', tests: boxTests },
  { file: sealed, from: "place.column]", to: '""]', tests: boxTests },
  {
    file: sealed,
    from: "Buffer.concat([ prefix, Buffer.from(",
    to: "Buffer.concat([ Buffer.from(",
    tests: boxTests
  },
  {
    file: sealed,
    from: "const options = { authTagLength: TAG_BYTES }",
    to: "const options = {}",
    tests: boxTests,
    equivalent: "the tag is cut from a fixed place of a value that is long enough, so it always has 16 bytes"
  },
  { file: sealed, from: "|| sealed.length < OVERHEAD_BYTES", to: "", tests: boxTests },
  {
    file: sealed,
    from: "const nonce = randomBytes(NONCE_BYTES)",
    to: "const nonce = Buffer.alloc(NONCE_BYTES)",
    tests: boxTests
  },
  {
    file: "server/secrets/KeyRing.ts",
    from: "if (bytes.length !== MASTER_KEY_BYTES) {",
    to: "if (bytes.length < 16) {",
    tests: boxTests
  },
  {
    file: "server/secrets/KeyRing.ts",
    from: 'if (bytes.every((byte) => byte === bytes[0])) return Result.fail("is one byte repeated, not random")',
    to: "",
    tests: boxTests
  },
  {
    file: "server/store/withoutTimeouts.ts",
    from: "yield* sql`SET LOCAL lock_timeout = 0`",
    to: "",
    tests: rotationTests
  },
  {
    file: "server/secrets/MasterKeyFile.ts",
    from: "(found.mode & 0o077) !== 0",
    to: "(found.mode & 0o007) !== 0",
    tests: fileTests
  },
  {
    file: "server/secrets/MasterKeyFile.ts",
    from: "if (lost !== undefined) {",
    to: "if (false) {",
    tests: fileTests
  },
  { file: rotation, from: "AND ${column} = ${value} RETURNING", to: "RETURNING", tests: rotationTests },
  {
    file: rotation,
    from: "if (foreign !== undefined) return",
    to: "if (false) return",
    tests: rotationTests
  },
  {
    file: rotation,
    from: "yield* sql`LOCK TABLE master_keys IN SHARE ROW EXCLUSIVE MODE`",
    to: "",
    tests: rotationTests
  },
  {
    file: rotation,
    from: "AND NOT EXISTS (SELECT FROM delivery_owners WHERE lease_until > clock_timestamp())",
    to: "",
    tests: rotationTests
  },
  {
    file: rotation,
    from: "after: rows.length < BATCH_ROWS ? undefined : rows.at(-1)?.place",
    to: "after: undefined",
    tests: rotationTests
  }
]
