/** Characters without a visible form, such as soft hyphens and joiners, which Unicode's case folding removes. */
const IGNORABLE = /\p{Default_Ignorable_Code_Point}+/gu

/**
 * Folds the case of a text in form NFKC, as Unicode's `NFKC_Casefold`: texts that differ only by case become equal, `Straße` and
 * `STRASSE`, and `σ` and a final `ς`. Beyond that standard, a dotted and a dotless `i` are the same letter, because a capital one does not
 * tell the language. The result can be three times as long. PostgreSQL's `lower` has no such form: what SQL compares too is folded by
 * `src/server/store/foldCase.ts`.
 */
export const casefold = (form: string): string =>
  form
    .replaceAll(IGNORABLE, "")
    // By way of the capitals, because one letter may have several small forms.
    .toUpperCase()
    .toLowerCase()
    .replaceAll("ς", "σ")
    .replaceAll("i\u0307", "i")
