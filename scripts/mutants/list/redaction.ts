/** Mutants of redaction: known secrets, recognizable formats, the organization's own rules, and the walk over JSON. */
import type { ListedMutant } from "../list.ts"

const redaction = "domain/redaction/Redaction.ts"
const known = "domain/redaction/Redaction/KnownValues.ts"
const policy = "domain/redaction/RedactionPolicy.ts"
const redactionTests = ["domain/redaction/Redaction.test.ts"]
const corpusTests = ["domain/redaction/corpus.test.ts"]
const policyTests = ["domain/redaction/RedactionPolicy.test.ts"]
const settingsTests = ["server/redaction/RedactionSettings.test.ts"]

export const redactions: ReadonlyArray<ListedMutant> = [
  { file: known, from: "before < 3", to: "before < 2", tests: redactionTests },
  { file: known, from: "value.length >= MIN_INSIDE ||", to: "", tests: redactionTests },
  {
    file: known,
    from: 'form.replaceAll("+", "-").replaceAll("/", "_")',
    to: "form",
    tests: redactionTests
  },
  {
    file: redaction,
    from: "known.policy.isException(value) && known.find({ text: value }).length === 0",
    to: "known.policy.isException(value)",
    tests: policyTests
  },
  {
    file: redaction,
    from: "if (++this.#nodes > this.#maxNodes) return",
    to: "if (++this.#nodes < 0) return",
    tests: redactionTests
  },
  {
    file: redaction,
    from: "clean = replaceRanges(clean, ranges, REDACTED) } return REDACTED",
    to: "clean = replaceRanges(clean, ranges, REDACTED) } return clean",
    tests: redactionTests
  },
  {
    file: redaction,
    from: "this.#known.find({ text }).length === 0 &&",
    to: "",
    tests: redactionTests
  },
  {
    file: redaction,
    from: "() => this.value(item, name))",
    to: "() => this.value(item, undefined))",
    tests: [...corpusTests, ...redactionTests]
  },
  {
    file: redaction,
    from: "if (!members.has(name)) return name",
    to: "if (members.size >= 0) return name",
    tests: redactionTests
  },
  {
    file: redaction,
    from: 'clean === "value" ? (pairName ?? name ?? clean) : clean',
    to: "clean",
    tests: corpusTests
  },
  {
    file: redaction,
    from: "if (repeats.length > MAX_REPEATS) return [{ start: 0, end: text.length }]",
    to: "if (repeats.length > MAX_REPEATS) return ranges",
    tests: corpusTests
  },
  {
    file: redaction,
    from: "repeats.length > values.size ? mergeRanges([...ranges, ...repeats]) : ranges",
    to: "ranges",
    tests: corpusTests
  },
  {
    file: "domain/redaction/Redaction/textWindows.ts",
    from: "const OVERLAP = 16 * 1024",
    to: "const OVERLAP = 0",
    tests: redactionTests
  },
  {
    file: "domain/redaction/Redaction/redactFaults.ts",
    from: "pointer: cleanPointer(pointer, known),",
    to: "pointer,",
    tests: ["server/tasks/Feedback/redactCorrection.test.ts"]
  },
  {
    file: "domain/redaction/Redaction/findPersonalData.ts",
    from: "if (isCard && hasLuhnDigit(digits))",
    to: "if (isCard)",
    tests: policyTests
  },
  {
    file: "domain/redaction/Redaction/findPersonalData.ts",
    from: "hasIbanDigits(iban) ? at : undefined",
    to: "true ? at : undefined",
    tests: policyTests
  },
  { file: policy, from: "start += PART - MAX_MATCH", to: "start += PART", tests: policyTests },
  {
    file: policy,
    from: "for (const range of withoutMarks(view.text, this.#findInPart(view.text))) {",
    to: "for (const range of this.#findInPart(view.text)) {",
    tests: policyTests
  },
  {
    file: policy,
    from: "if (totalSize(compiled) > MAX_TOTAL_SIZE) {",
    to: "if (false) {",
    tests: policyTests
  },
  {
    file: "server/secrets/KnownSecrets.ts",
    from: "entry?.version === version ? entry.values : undefined",
    to: "entry?.values",
    tests: settingsTests
  },
  {
    file: "server/secrets/KnownSecrets.ts",
    from: 'credential === undefined ? [secret.replace(/^whsec_/, ""), secret] : [secret, credential]',
    to: "[secret]",
    tests: ["server/tasks/Feedback/redactCorrection.test.ts"]
  }
]
