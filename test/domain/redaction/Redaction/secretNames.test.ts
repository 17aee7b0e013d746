import { assert, describe, it } from "@effect/vitest"
import { isSecretName } from "../../../../src/domain/redaction/Redaction/secretNames.ts"

const secret = [
  ..."password passwd userPassword db_pass passphrase Passwort contraseña wachtwoord contrase\u00f1a mdp".split(
    " "
  ),
  ..."token api_token accessToken authToken2 secret client_secret clientSecret secretValue credentials Authorization".split(
    " "
  ),
  ..."api_key apiKey apikey API-KEY access_key master_key signing_key encryption_key private_key_pem service_account_key".split(
    " "
  ),
  ..."mnemonic seed jwt psk passcode bearer sid pat totp auth session cookie set-cookie connection_string".split(
    " "
  ),
  ..."pin card_pin pinCode cvv cvc".split(" "),
  `${"x".repeat(500)}_password`
]

const ordinary = [
  ..."user name amount_cents order to subject path secretary author authority monkey passenger compass spin".split(
    " "
  ),
  ..."token_id tokenType session_id password_hash password_expires_at key_count auth_url cookie_policy secret_name".split(
    " "
  ),
  ..."max_tokens prompt_tokens outputTokens total_tokens next_page_token continuationToken".split(" "),
  ..."public_key publishableKey sort_key primaryKey cache_key key".split(" "),
  ""
]

describe("secretNames", () => {
  it("names of passwords, keys, tokens and other credentials are secret", () =>
    assert.deepStrictEqual(
      secret.filter((name) => !isSecretName(name)),
      []
    ))

  it("names of identifiers, amounts, public keys and facts about secrets are not secret", () =>
    assert.deepStrictEqual(ordinary.filter(isSecretName), []))
})
