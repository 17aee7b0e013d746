import { InvalidUrl } from "../../../api/Problems.ts"
import type { UrlRefused } from "./EgressFailed.ts"

/** What a caller is told of a URL that is refused, which stands at `pointer` of its request. */
export const invalidUrl =
  (pointer: string) =>
  ({ phrase }: UrlRefused): InvalidUrl =>
    new InvalidUrl({ detail: phrase, errors: [{ pointer, detail: phrase }] })
