import { createHash, timingSafeEqual } from "node:crypto"

/** Whether two texts are the same, in a time that does not tell where they differ. */
export const constantTimeEqual = (left: string, right: string): boolean =>
  timingSafeEqual(sha256(left), sha256(right))

const sha256 = (text: string) => createHash("sha256").update(text).digest()
