import { InvalidUrl } from "../../api/Problems.ts"
import type { UrlRefused } from "./EgressFailed.ts"

/** The 400 response for a refused URL at `pointer` of the request. */
export const invalidUrl =
  (pointer: string) =>
  ({ phrase }: UrlRefused): InvalidUrl =>
    new InvalidUrl({ detail: phrase, errors: [{ pointer, detail: phrase }] })
