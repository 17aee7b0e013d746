import { createHash } from "node:crypto"

/** Number of 16-bit lanes of a state, as in the published construction. */
const LANES = 1024

/** Size of a state in bytes. */
export const STATE_BYTES = LANES * 2

/**
 * An incremental digest of a multiset: LtHash16 (Lewi, Kim, Maykov, Weis: "Securing Update Propagation with Homomorphic Hashing", 2019;
 * after Bellare and Micciancio, 1997). SHAKE128 expands each member to 1,024 lanes of 16 bits. The state is the sum of the members, lane by
 * lane, modulo 2^16, so adding or removing costs one member, the order does not matter, and a member that occurs twice counts twice. Two
 * collections with the same state would give a short combination of random vectors (the lattice problem SIS), which the authors estimate at
 * over 200 bits of work. Sums of plain 256-bit hashes would fall to Wagner's generalized birthday attack. The published digest is the
 * SHA-256 of the state.
 */
export class ContentDigest {
  readonly #lanes: Uint16Array

  private constructor(lanes: Uint16Array) {
    this.#lanes = lanes
  }

  /** The digest of the empty collection. */
  static empty(): ContentDigest {
    return new ContentDigest(new Uint16Array(LANES))
  }

  /** Restores a stored state of `STATE_BYTES` bytes. */
  static from(state: Uint8Array): ContentDigest {
    const view = new DataView(state.buffer, state.byteOffset, STATE_BYTES)
    const lanes = new Uint16Array(LANES)
    for (let lane = 0; lane < LANES; lane++) lanes[lane] = view.getUint16(lane * 2, true)
    return new ContentDigest(lanes)
  }

  /** Adds a member, by its canonical text. */
  add(member: string): void {
    this.#sum(contentHash(member), 1)
  }

  /** Removes a member that was added before. */
  remove(member: string): void {
    this.#sum(contentHash(member), -1)
  }

  /** Adds an erased member, by its `contentHash`. */
  addErased(hash: Uint8Array): void {
    this.#sum(hash, 1)
  }

  /** Removes an erased member, by its `contentHash`. */
  removeErased(hash: Uint8Array): void {
    this.#sum(hash, -1)
  }

  /** The state to store, little-endian on every machine. */
  state(): Uint8Array {
    const bytes = new Uint8Array(STATE_BYTES)
    const view = new DataView(bytes.buffer)
    for (let lane = 0; lane < LANES; lane++) view.setUint16(lane * 2, this.#lanes[lane] ?? 0, true)
    return bytes
  }

  /** The digest: 64 lowercase hex digits. */
  digest(): string {
    return createHash("sha256").update(this.state()).digest("hex")
  }

  #sum(hash: Uint8Array, sign: 1 | -1): void {
    const expanded = new DataView(hash.buffer, hash.byteOffset, STATE_BYTES)
    const lanes = this.#lanes
    for (let lane = 0; lane < LANES; lane++) {
      lanes[lane] = (lanes[lane] ?? 0) + sign * expanded.getUint16(lane * 2, true)
    }
  }
}

/** The contribution of a member to the state: `STATE_BYTES` bytes. Once a member is erased, a digest is verified by this instead. */
export const contentHash = (member: string): Uint8Array =>
  createHash("shake128", { outputLength: STATE_BYTES }).update(member).digest()
