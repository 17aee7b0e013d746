import { createHash, timingSafeEqual } from "node:crypto"

/** Compares two texts in constant time, so that the duration does not reveal the position of the first difference. */
export const constantTimeEqual = (left: string, right: string): boolean =>
  timingSafeEqual(sha256(left), sha256(right))

const sha256 = (text: string) => createHash("sha256").update(text).digest()
