/** A language with examples by label, and inputs that have other forms of their words: `[input, label]`. */
export interface InflectedTexts {
  readonly language: string
  readonly examples: Readonly<Record<string, ReadonlyArray<string>>>
  readonly inputs: ReadonlyArray<readonly [text: string, label: string]>
}

/** Short messages to a bank and shop in ten languages. The inputs inflect, derive or compound the words of the examples. */
export const inflectedTexts: ReadonlyArray<InflectedTexts> = [
  {
    language: "English",
    examples: {
      card: ["I have lost my card", "my wallet with the card was stolen"],
      refund: ["my refund has not arrived", "when do I get the money back"],
      parcel: ["where is the parcel that I ordered", "the delivery is late"],
      password: ["I forgot my password", "the login does not work"]
    },
    inputs: [
      ["cards getting stolen", "card"],
      ["refunds missing", "refund"],
      ["late deliveries of parcels", "parcel"],
      ["forgetting passwords", "password"]
    ]
  },
  {
    language: "German",
    examples: {
      card: ["Ich habe meine Karte verloren", "Die Kreditkarte wurde gestohlen"],
      refund: ["Ich möchte mein Geld zurück", "Wann kommt die Rückerstattung?"],
      parcel: ["Wo ist mein Paket?", "Die Lieferung ist zu spät"],
      password: ["Ich habe mein Passwort vergessen", "Die Anmeldung funktioniert nicht"]
    },
    inputs: [
      ["Bankkarten verlieren", "card"],
      ["Geldrückgabe, Erstattungen", "refund"],
      ["verspätete Paketlieferungen", "parcel"],
      ["PASSWÖRTER VERGISST MAN", "password"]
    ]
  },
  {
    language: "Finnish",
    examples: {
      card: ["Olen kadottanut korttini", "Pankkikortti on varastettu"],
      refund: ["Haluan rahani takaisin", "Milloin saan hyvityksen?"],
      parcel: ["Missä pakettini on?", "Toimitus on myöhässä"],
      password: ["Unohdin salasanani", "Kirjautuminen ei onnistu"]
    },
    inputs: [
      ["kortin kadottaminen", "card"],
      ["rahojen palautus, hyvitykset", "refund"],
      ["paketteja ei ole toimitettu", "parcel"],
      ["salasanan unohtaminen", "password"]
    ]
  },
  {
    language: "Hungarian",
    examples: {
      card: ["Elvesztettem a kártyámat", "Ellopták a bankkártyát"],
      refund: ["Szeretném visszakapni a pénzemet", "Mikor jön meg a visszatérítés?"],
      parcel: ["Hol van a csomagom?", "A szállítás késik"],
      password: ["Elfelejtettem a jelszavamat", "Nem sikerül a bejelentkezés"]
    },
    inputs: [
      ["kártyák elvesztése", "card"],
      ["visszatérítések a pénzről", "refund"],
      ["késve szállított csomagok", "parcel"],
      ["elfelejtett jelszavak", "password"]
    ]
  },
  {
    language: "Turkish",
    examples: {
      card: ["Kartımı kaybettim", "Cüzdanımla birlikte kartım çalındı"],
      refund: ["Paramı geri istiyorum", "İade ne zaman yapılacak?"],
      parcel: ["Kargom nerede?", "Siparişim gecikti"],
      password: ["Şifremi unuttum", "Hesaba giriş yapamıyorum"]
    },
    inputs: [
      ["kartlarım kayboldu", "card"],
      ["iadeler, paraların geri verilmesi", "refund"],
      ["kargonun gecikmesi", "parcel"],
      ["ŞİFREYİ UNUTMUŞUM", "password"]
    ]
  },
  {
    language: "Russian",
    examples: {
      card: ["Я потерял карту", "У меня украли кошелёк с картой"],
      refund: ["Когда вернут деньги?", "Мне не пришёл возврат"],
      parcel: ["Где моя посылка?", "Доставка опаздывает"],
      password: ["Я забыл пароль", "Не могу войти в аккаунт"]
    },
    inputs: [
      ["потеря карты, кража карточек", "card"],
      ["возвращение денег", "refund"],
      ["опоздание с доставкой посылок", "parcel"],
      ["забытые пароли", "password"]
    ]
  },
  {
    language: "Polish",
    examples: {
      card: ["Zgubiłem kartę", "Skradziono mi portfel z kartą"],
      refund: ["Kiedy dostanę zwrot pieniędzy?", "Chcę odzyskać pieniądze"],
      parcel: ["Gdzie jest moja paczka?", "Dostawa się spóźnia"],
      password: ["Zapomniałem hasła", "Nie mogę się zalogować"]
    },
    inputs: [
      ["zgubienie karty", "card"],
      ["zwroty, odzyskanie pieniedzy", "refund"],
      ["spóźnione dostawy paczek", "parcel"],
      ["ZAPOMNIANE HASŁO", "password"]
    ]
  },
  {
    language: "Greek",
    examples: {
      card: ["Έχασα την κάρτα μου", "Μου έκλεψαν το πορτοφόλι"],
      refund: ["Θέλω πίσω τα χρήματά μου", "Πότε θα γίνει η επιστροφή;"],
      parcel: ["Πού είναι το δέμα μου;", "Η παράδοση καθυστερεί"],
      password: ["Ξέχασα τον κωδικό μου", "Δεν μπορώ να συνδεθώ"]
    },
    inputs: [
      ["χαμένες κάρτες", "card"],
      ["ΕΠΙΣΤΡΟΦΕΣ ΧΡΗΜΑΤΩΝ", "refund"],
      ["καθυστέρηση παραδόσεων", "parcel"],
      ["ΚΩΔΙΚΟΙ ΠΟΥ ΞΕΧΑΣΑ", "password"]
    ]
  },
  {
    language: "Arabic",
    examples: {
      card: ["فقدت بطاقتي", "سُرقت محفظتي مع البطاقة"],
      refund: ["متى أسترد نقودي؟", "لم يصل المبلغ المسترد"],
      parcel: ["أين طردي؟", "الشحنة متأخرة"],
      password: ["نسيت كلمة المرور", "لا أستطيع تسجيل الدخول"]
    },
    inputs: [
      ["فقدان البطاقات", "card"],
      ["استرداد النقود", "refund"],
      ["تأخر شحن الطرود", "parcel"],
      ["نسيان كلمات مرور", "password"]
    ]
  },
  {
    language: "Korean",
    examples: {
      card: ["카드를 잃어버렸어요", "지갑을 도난당했어요"],
      refund: ["환불이 아직 안 들어왔어요", "돈을 돌려받고 싶어요"],
      parcel: ["택배가 어디에 있나요?", "배송이 늦어지고 있어요"],
      password: ["비밀번호를 잊어버렸어요", "로그인이 안 돼요"]
    },
    inputs: [
      ["카드 분실 신고하려고요", "card"],
      ["환불은 언제 되나요", "refund"],
      ["늦은 배송과 택배 문의", "parcel"],
      ["비밀번호 찾기", "password"]
    ]
  }
]
