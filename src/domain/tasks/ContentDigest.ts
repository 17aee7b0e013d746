import { createHash } from "node:crypto"

/** Lanes of 16 bits in a state, as in the published construction. */
const LANES = 1024

/** Bytes of a state. */
export const STATE_BYTES = LANES * 2

/**
 * The digest of a collection that changes by a few members at a time: LtHash16 (Lewi, Kim, Maykov, Weis: "Securing Update
 * Propagation with Homomorphic Hashing", 2019; after Bellare and Micciancio, 1997). Each member is stretched to 1,024 lanes of 16
 * bits by SHAKE128, and the state is the sum of its members, lane by lane, modulo 2^16. So adding and removing cost one member,
 * order is no matter, and a member that comes twice counts twice. To find two collections of one state is to find a short
 * combination of random vectors (the lattice problem SIS), which the authors put above 200 bits of work; adding
 * plain 256-bit hashes would fall to Wagner's generalized birthday attack. What is shown is the SHA-256 of the state.
 */
export class ContentDigest {
  readonly #lanes: Uint16Array

  private constructor(lanes: Uint16Array) {
    this.#lanes = lanes
  }

  /** Of nothing. */
  static empty(): ContentDigest {
    return new ContentDigest(new Uint16Array(LANES))
  }

  /** From a state that was kept: `STATE_BYTES` bytes. */
  static from(state: Uint8Array): ContentDigest {
    const view = new DataView(state.buffer, state.byteOffset, STATE_BYTES)
    const lanes = new Uint16Array(LANES)
    for (let lane = 0; lane < LANES; lane++) lanes[lane] = view.getUint16(lane * 2, true)
    return new ContentDigest(lanes)
  }

  /** Takes a member in, by its canonical text. */
  add(member: string): void {
    this.#sum(member, 1)
  }

  /** Takes a member out that was taken in before. */
  remove(member: string): void {
    this.#sum(member, -1)
  }

  /** What to keep, in little-endian order on every machine. */
  state(): Uint8Array {
    const bytes = new Uint8Array(STATE_BYTES)
    const view = new DataView(bytes.buffer)
    for (let lane = 0; lane < LANES; lane++) view.setUint16(lane * 2, this.#lanes[lane] ?? 0, true)
    return bytes
  }

  /** 64 hex digits. */
  digest(): string {
    return createHash("sha256").update(this.state()).digest("hex")
  }

  #sum(member: string, sign: 1 | -1): void {
    const stretched = createHash("shake128", { outputLength: STATE_BYTES }).update(member).digest()
    const lanes = this.#lanes
    for (let lane = 0; lane < LANES; lane++) {
      lanes[lane] = (lanes[lane] ?? 0) + sign * stretched.readUInt16LE(lane * 2)
    }
  }
}
