//! The repository's vectors: the same words, values and secrets give the same bytes as in every other language.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::PathBuf;

use ldpbeam_device::definition::Domain;
use ldpbeam_device::participation::Participation;
use ldpbeam_device::protocols::Memo;
use ldpbeam_device::randomness::{self, Derivation, Derived, Purpose, Single, Words};
use ldpbeam_device::{Definition, DeviceError, Held, Value, slices, values, wire};
use serde_json::{Value as Json, json};

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../tests/vectors").join(name)
}

fn text_of(name: &str) -> String {
    fs::read_to_string(folder(name)).unwrap()
}

fn json_of(name: &str) -> Json {
    serde_json::from_str(&text_of(name)).unwrap()
}

/// Names without their ending.
fn names_in(name: &str) -> Vec<String> {
    let files = fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = files.filter_map(|file| file.strip_suffix(".json").map(str::to_owned)).collect();
    names.sort();
    names
}

fn definition_of(name: &str) -> Definition {
    Definition::parse(&text_of(&format!("definitions/{name}.json"))).unwrap()
}

fn list(json: &Json) -> &Vec<Json> {
    json.as_array().unwrap()
}

fn text(json: &Json) -> &str {
    json.as_str().unwrap()
}

/// Decimal text, or a number.
fn integer<T: std::str::FromStr<Err: std::fmt::Debug>>(json: &Json) -> T {
    json.as_str().map_or_else(|| json.to_string(), str::to_owned).parse().unwrap()
}

fn bytes(hex: &Json) -> Vec<u8> {
    let digits = text(hex);
    (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap()).collect()
}

/// Replays given words.
#[derive(Default)]
struct Script(VecDeque<u64>);

impl Script {
    fn give(words: &Json) -> Single<Self> {
        Single::new(Self(list(words).iter().map(integer).collect()))
    }
}

impl Words for Script {
    fn next(&mut self) -> Result<u64, DeviceError> {
        self.below(randomness::FULL)
    }

    fn below(&mut self, limit: u128) -> Result<u64, DeviceError> {
        let word = self.0.pop_front().expect("the script has run out");
        assert!(u128::from(word) < limit, "a scripted word is not below its limit");
        Ok(word)
    }
}

/// Decimal digits of a little-endian integer of any length, as the vectors write it.
fn decimal(bytes: &[u8]) -> String {
    let mut digits = vec![0u32];
    for byte in bytes.iter().rev() {
        let mut carry = u32::from(*byte);
        for digit in &mut digits {
            carry += *digit * 256;
            *digit = carry % 10;
            carry /= 10;
        }
        while carry > 0 {
            digits.push(carry % 10);
            carry /= 10;
        }
    }
    digits.iter().rev().map(ToString::to_string).collect()
}

fn written(memo: &Memo) -> Json {
    let answers: BTreeMap<String, String> =
        memo.answers.iter().map(|(input, answer)| (input.to_string(), decimal(answer))).collect();
    let mut found = json!({ "seed": memo.seed.as_deref().map(decimal), "answers": answers });
    if !memo.parts.is_empty() {
        found["parts"] = memo.parts.iter().map(written).collect();
    }
    found
}

#[test]
fn scripted_words_give_memo_and_payload_of_every_protocol() {
    let mut encodings = std::collections::BTreeSet::new();
    for name in names_in(".") {
        let vector = json_of(&format!("{name}.json"));
        let definition = definition_of(&name);
        let stated = &json_of(&format!("definitions/{name}.json"))["protocol"];
        encodings.insert(stated["encoding"].to_string());
        let new = |created: &Json| {
            let mut script = Script::give(&created["words"]);
            let memo = definition.protocol.new_memo(&mut script).unwrap();
            assert_eq!((written(&memo), script.words.0.len()), (created["memo"].clone(), 0), "{name}");
            memo
        };
        let mut memos: Vec<Memo> = list(&vector["new_memos"]).iter().map(new).collect();
        for step in list(&vector["steps"]) {
            let mut script = Script::give(&step["words"]);
            let memo = &mut memos[integer::<usize>(&step["device"])];
            let value: Vec<u32> = match &step["value"] {
                Json::Array(prints) => prints.iter().map(integer).collect(),
                one => vec![integer(one)],
            };
            let (payload, after) = definition.protocol.report(&value, memo, &mut script).unwrap();
            assert_eq!((&payload, script.words.0.len()), (&bytes(&step["payload"]), 0), "{name}");
            assert_eq!(payload.len(), integer::<usize>(&stated["payload_size"]));
            assert!(after.as_ref() != Some(&*memo), "{name}: a memo that is not new");
            *memo = after.unwrap_or_else(|| memo.clone());
            assert_eq!(written(memo), step["memo_after"], "{name}");
        }
        assert_eq!(list(&vector["steps"]).len(), 24);
    }
    assert_eq!(encodings.len(), 11);
}

/// Words as they come, without a limit.
struct Raw(Vec<u64>);

impl Words for Raw {
    fn next(&mut self) -> Result<u64, DeviceError> {
        Ok(self.0.remove(0))
    }
}

#[test]
fn a_word_beyond_the_last_multiple_of_a_limit_is_passed_over() {
    let end = 10 * (u64::MAX / 10);
    assert_eq!(Raw(vec![end, u64::MAX, 27]).below(10).unwrap(), 7);
    assert_eq!(Raw(vec![end - 1]).below(10).unwrap(), 9);
    assert_eq!(Raw(vec![u64::MAX]).below(randomness::FULL).unwrap(), u64::MAX);
}

/// The payload about a value, as an integer, of a protocol of one round, from given words.
fn payload(definition: &Definition, value: u32, words: &[u64]) -> i64 {
    let mut script = Script::give(&json!(words));
    let (payload, _) = definition.protocol.report(&[value], &Memo::default(), &mut script).unwrap();
    assert_eq!(script.words.0.len(), 0);
    payload.iter().rev().fold(0, |number, byte| number << 8 | i64::from(*byte))
}

#[test]
fn words_at_the_edges_of_every_round() {
    let weight = |name: &str, key: &str| {
        integer::<u64>(&json_of(&format!("definitions/{name}.json"))["protocol"]["instant"][key])
    };
    let (grr, keep, each) = (definition_of("grr"), weight("grr", "keep"), weight("grr", "each"));
    let sent = |word: u64| payload(&grr, 5, &[word]);
    assert_eq!([sent(keep - 1), sent(keep), sent(keep + 5 * each - 1), sent(keep + 5 * each)], [5, 0, 4, 6]);
    let (mean, keep) = (definition_of("piecewise_mean"), weight("piecewise_mean", "keep"));
    let (width, each) = (weight("piecewise_mean", "width"), weight("piecewise_mean", "each"));
    let (inside, last) = (keep * width, (2 + width).cast_signed());
    let sent = |word: u64| payload(&mean, 3, &[word]);
    assert_eq!([sent(0), sent(inside - 1), sent(inside), sent(inside + 3 * each)], [3, last, 0, last + 1]);
    let (one, zero) = (weight("oue", "one"), weight("oue", "zero"));
    let mut words = vec![zero; 11];
    words[0] = zero - 1;
    words[5] = one - 1;
    assert_eq!(payload(&definition_of("oue"), 5, &words), 0b10_0001);
    words[5] = one;
    assert_eq!(payload(&definition_of("oue"), 5, &words), 1);
}

#[test]
fn a_long_report_has_a_bit_for_each_value_and_no_other() {
    let mut asked = changed("oue", "domain.size", &json!(1030));
    asked["protocol"]["domain_size"] = json!(1030);
    asked["protocol"]["payload_size"] = json!(129);
    let definition = parsed(&asked).unwrap();
    let mut script = Script::give(&json!(vec![0; 1030]));
    let (payload, _) = definition.protocol.report(&[5], &Memo::default(), &mut script).unwrap();
    assert_eq!((&payload[..128], payload[128], script.words.0.len()), (&[0xff; 128][..], 0x3f, 0));
}

/// The largest word below each limit.
struct Largest;

impl Words for Largest {
    fn next(&mut self) -> Result<u64, DeviceError> {
        self.below(randomness::FULL)
    }

    fn below(&mut self, limit: u128) -> Result<u64, DeviceError> {
        Ok((limit - 1) as u64)
    }
}

#[test]
fn seeds_at_the_edges() {
    let seed_of = |memo: Memo| memo.seed.unwrap().iter().rev().fold(0, |all, byte| all << 8 | u128::from(*byte));
    let seeds = integer::<u128>(&json_of("definitions/loloha_linear.json")["protocol"]["hash"]["seeds"]);
    let last = definition_of("loloha_linear").protocol.new_memo(&mut Single::new(Largest)).unwrap();
    assert_eq!(seed_of(last), seeds);
    let seed = |a: u64| {
        let mut script = Script::give(&json!([a, 7]));
        seed_of(definition_of("loloha_affine").protocol.new_memo(&mut script).unwrap())
    };
    let exchanged = |a: u64| seed(a) != u128::from(a) | 7 << 64;
    let near = [0, 8191, u64::MAX - 8190, 8192, u64::MAX - 8191].map(exchanged);
    assert_eq!(near, [true, true, true, false, false]);
}

#[test]
fn noisy_values_end_at_both_margins_to_the_integer() {
    let protocol = &json_of("definitions/laplace_mean.json")["protocol"];
    let definition = definition_of("laplace_mean");
    let sent = |value: u32, sign: u64, rest: u64| {
        let bits = vec![rest; list(&protocol["instant"]["bits"]).len()];
        payload(&definition, value, &[vec![sign, sign, rest, rest], bits].concat())
    };
    let (last, margin): (i64, i64) = (integer::<i64>(&protocol["domain_size"]) - 1, integer(&protocol["margin"]));
    // The largest noise is beyond either end; none at all is −1 with a negative sign.
    assert_eq!([sent(last as u32, u64::MAX, 0), sent(0, 0, 0)], [last + margin, -margin]);
    assert_eq!([sent(last as u32, u64::MAX, u64::MAX), sent(0, 0, u64::MAX)], [last, -1]);
}

/// What a person gives, where the vectors have it: a text, indices by their numbers, or one for each attribute.
fn held(json: &Json) -> Held {
    match json {
        Json::Array(several) => Held::Each(several.iter().map(|one| Value::Index(integer(one))).collect()),
        Json::String(text) => Held::One(Value::Text(text.clone())),
        one => Held::One(Value::Index(integer(one))),
    }
}

/// Reports of a device that derives its words.
struct Device {
    definition: Definition,
    derivation: Derivation,
    memo: Memo,
}

impl Device {
    fn new(definition: Definition, secret: &Json) -> Self {
        let derivation = Derivation::new(&bytes(secret), &definition.full_digest, randomness::WORDS);
        let memo = definition.protocol.new_memo(&mut Derived::once(&derivation)).unwrap();
        Self { definition, derivation, memo }
    }

    fn report(&self, value: &Json, epoch: i64, digest: u64) -> (Vec<u8>, Vec<(u32, u64)>) {
        let indices = values::indices_of(&self.definition, &held(value)).unwrap();
        let mut words = Derived::report(&self.derivation, epoch, &indices);
        let (payload, _) = self.definition.protocol.report(&indices, &self.memo, &mut words).unwrap();
        (self.message(&payload, epoch, digest), words.inputs)
    }

    fn noise(&self, epoch: i64) -> Vec<u8> {
        let mut words = Derived::noise(&self.derivation, epoch);
        let payload = self.definition.protocol.noise(&self.memo, &mut words).unwrap();
        assert_eq!(words.inputs, []);
        self.message(&payload, epoch, self.definition.digest)
    }

    fn message(&self, payload: &[u8], epoch: i64, digest: u64) -> Vec<u8> {
        let report_id = self.derivation.word(Purpose::ReportId, epoch).unwrap();
        wire::encode_report(digest, epoch, report_id, payload)
    }
}

#[test]
fn a_secret_gives_every_report() {
    let names: Vec<String> = names_in("derived").into_iter().filter(|name| name != "streams").collect();
    assert!(names.len() > 30);
    for name in names {
        let vector = json_of(&format!("derived/{name}.json"));
        for history in list(&vector["devices"]) {
            let device = Device::new(definition_of(&name), &history["secret"]);
            for step in list(&history["steps"]) {
                let epoch = integer(&step["epoch"]);
                let (report, inputs) = device.report(&step["value"], epoch, device.definition.digest);
                assert_eq!(report, bytes(&step["report"]), "{name}");
                let stated = list(&step["inputs"]).iter().map(|one| (integer(&one[0]), integer(&one[1])));
                assert_eq!(inputs, stated.collect::<Vec<_>>(), "{name}");
                assert_eq!(device.noise(epoch), bytes(&step["spent"]), "{name}");
                let word = device.derivation.word(Purpose::SendingTime, epoch).unwrap();
                assert_eq!(word, integer::<u64>(&step["sending_word"]));
            }
        }
    }
}

#[test]
fn streams_and_limits() {
    let vector = json_of("derived/streams.json");
    let digest = bytes(&vector["full_digest"]).try_into().unwrap();
    let derivation = Derivation::new(&bytes(&vector["secret"]), &digest, randomness::WORDS);
    for stream in list(&vector["streams"]) {
        let number = integer::<i128>(&stream["input"]) as u64;
        let (purpose, part) = (integer(&stream["purpose"]), integer(&stream["part"]));
        let about = bytes(&stream["values"]);
        assert_eq!(derivation.key(purpose, part, number, &about).as_slice(), bytes(&stream["key"]));
        let mut words = derivation.stream(purpose, part, number, &about);
        for word in list(&stream["words"]) {
            assert_eq!(words.below(integer(&word["limit"])).unwrap(), integer::<u64>(&word["word"]));
        }
        let mut then = vec![0; list(&stream["then"]).len()];
        words.fill(&mut then).unwrap();
        assert_eq!(then, list(&stream["then"]).iter().map(integer).collect::<Vec<u64>>());
    }
}

#[test]
fn epochs_of_a_device_that_takes_part_in_few() {
    let choices = json_of("participation/choices.json");
    for choice in list(&choices) {
        let few = Participation { reports: integer(&choice["reports"]), of: integer(&choice["of"]) };
        let chosen = few.chosen(&mut Script::give(&choice["words"]).words).unwrap();
        assert_eq!(json!(chosen), choice["epochs"]);
    }
    for name in names_in("participation").iter().filter(|name| *name != "choices") {
        let vector = json_of(&format!("participation/{name}.json"));
        for history in list(&vector["devices"]) {
            let definition = Definition::parse(&vector["definition"].to_string()).unwrap();
            let device = Device::new(definition, &history["secret"]);
            let own = device.definition.participation.unwrap().derived(&device.derivation).unwrap();
            for (epoch, report) in (0u32..).zip(list(&history["reports"])) {
                assert_eq!(own.contains(&epoch), !report.is_null(), "{name}");
                if own.contains(&epoch) {
                    let (drawn, _) = device.report(&history["value"], epoch.into(), device.definition.digest);
                    assert_eq!(drawn, bytes(report), "{name}");
                }
            }
        }
    }
}

fn slice_of(json: &Json) -> Option<slices::Slice> {
    let labels = json.as_object()?.iter();
    labels.map(|(name, label)| Some((name.clone(), label.as_str()?.to_owned()))).collect()
}

#[test]
fn digests_and_reports_of_slices() {
    for name in names_in("slices") {
        let vector = json_of(&format!("slices/{name}.json"));
        let definition = Definition::parse(&vector["definition"].to_string()).unwrap();
        let digest = |slice: &Json| slices::digest_of(&definition, &slice_of(slice).unwrap_or_default());
        for one in list(&vector["digests"]) {
            assert_eq!(digest(&one["slice"]).unwrap().to_le_bytes().to_vec(), bytes(&one["digest"]));
        }
        for refused in list(&vector["refused"]) {
            let error = digest(refused).unwrap_err();
            assert_eq!(error.code(), "E-DEVICE-SLICE");
            assert!(!["Beta", "beta", "日本", "Atlantis"].iter().any(|label| error.to_string().contains(label)));
        }
        let device = Device::new(definition.clone(), &vector["secret"]);
        for step in list(&vector["steps"]) {
            let drawn = device.report(&step["value"], integer(&step["epoch"]), digest(&step["slice"]).unwrap());
            assert_eq!(drawn.0, bytes(&step["report"]));
        }
    }
}

fn parsed(json: &Json) -> Result<Definition, DeviceError> {
    Definition::parse(&json.to_string())
}

fn value_of(json: &Json) -> Option<Value> {
    match json {
        Json::String(text) => Some(Value::Text(text.clone())),
        Json::Number(number) => number.as_i64().map(Value::Integer).or_else(|| number.as_f64().map(Value::Number)),
        Json::Object(one) => one.get("index")?.as_i64().map(Value::Index),
        _ => None, // what no Rust program can give
    }
}

#[test]
fn values_have_the_index_of_every_other_client() {
    let mut cases = 0;
    for case in list(&json_of("values/cases.json")) {
        let mut asked = json_of("definitions/l_grr.json");
        let size: u64 = integer(&case["size"]);
        for key in ["size", "labels", "maximum", "other"] {
            asked["domain"][key] = case[key].clone();
        }
        asked["protocol"] = json_of("definitions/one_bit_mean.json")["protocol"].clone();
        asked["protocol"]["domain_size"] = json!(size);
        asked["protocol"]["instant"] = json!({ "zero": "1", "step": "1" });
        let domain: &Domain = &parsed(&asked).unwrap().domains[0];
        for given in list(&case["cases"]) {
            let found = value_of(&given[0]).map(|value| values::index_of(&value, domain));
            if let Some(Err(error)) = &found {
                assert_eq!(error.code(), "E-DEVICE-VALUE");
                assert!(!error.to_string().contains("secret"), "{error}");
            }
            let index = found.and_then(Result::ok);
            assert_eq!(json!(index), given[1], "{} of {size} below {}", given[0], case["maximum"]);
            cases += 1;
        }
    }
    assert!(cases > 1500, "{cases}");
}

#[test]
fn floats_that_are_not_finite_are_refused() {
    let definition = definition_of("l_grr");
    for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let error = values::indices_of(&definition, &Value::Number(wrong).into()).unwrap_err();
        assert_eq!(error.code(), "E-DEVICE-VALUE");
    }
    assert!(values::index_of(&Value::Number(-0.0), &definition.domains[0]).is_ok_and(|index| index == 0));
}

#[test]
fn attributes_have_one_value_each_in_order_or_by_name() {
    let definition = definition_of("together_one_bit_rrpm");
    let names = definition.attributes.clone().unwrap();
    let each = |indices: &[i64]| Held::Each(indices.iter().copied().map(Value::Index).collect());
    let zeros = vec![0; names.len()];
    assert_eq!(values::indices_of(&definition, &each(&zeros)).unwrap(), vec![0; names.len()]);
    let named = |names: &[String]| {
        let some = names.iter().rev().zip(0..).map(|(name, i)| (name.clone(), Value::Index(i % 2)));
        Held::Named(some.collect())
    };
    let found = values::indices_of(&definition, &named(&names)).unwrap();
    assert_eq!(found, (0..names.len() as u32).rev().map(|i| i % 2).collect::<Vec<_>>());
    let mut other = names.clone();
    other[0] = "another".to_owned();
    let most = definition.domains.iter().map(|domain| i64::from(domain.size) - 1).collect::<Vec<_>>();
    for wrong in [each(&zeros[1..]), named(&other), named(&names[1..]), Held::One(Value::Index(0)), each(&most)] {
        assert_eq!(values::indices_of(&definition, &wrong).unwrap_err().code(), "E-DEVICE-VALUE");
    }
}

/// Text of JSON in which half a character, which no text of Rust has, is another one that no alphabet has.
fn whole_characters(json: &str) -> String {
    let mut found = String::new();
    let mut rest = json;
    while let Some(at) = rest.find("\\ud") {
        found.push_str(&rest[..at]);
        let is_pair = rest[at + 3..at + 4] < *"c" && rest[at + 6..].starts_with("\\ud");
        let length = if is_pair { 12 } else { 6 };
        found.push_str(if is_pair { &rest[at..at + 12] } else { "\\ufffd" });
        rest = &rest[at + length..];
    }
    found + rest
}

#[test]
fn texts_have_the_fingerprints_of_every_other_client() {
    let rules: Json = serde_json::from_str(&whole_characters(&text_of("strings/cases.json"))).unwrap();
    assert!(list(&rules).len() >= 16);
    for rule in list(&rules) {
        let mut asked = json_of("definitions/strings_loloha.json");
        asked["domain"] = rule["domain"].clone();
        let lengths = list(&rule["domain"]["strings"]["lengths"]).len();
        asked["protocol"]["weights"] = json!(vec![1; lengths]);
        asked["spending"]["parts"] = json!([]);
        let definition = parsed(&asked).unwrap();
        for case in list(&rule["cases"]) {
            let given = Held::One(Value::Text(text(&case[0]).to_owned()));
            assert_eq!(json!(values::indices_of(&definition, &given).unwrap()), case[1], "{}", case[0]);
        }
        for wrong in [Held::One(Value::Integer(8_675_309)), Held::Each(vec![Value::Text("a".to_owned())])] {
            assert_eq!(values::indices_of(&definition, &wrong).unwrap_err().code(), "E-DEVICE-VALUE");
        }
    }
}

#[test]
fn long_fields_have_long_lengths_and_zeros_are_absent() {
    assert_eq!(wire::encode_report(0, 0, 0, &[7; 300])[..3], [0x22, 0xac, 0x02]);
    let report = wire::encode_report(0x0101_0101_0101_0101, 1 << 40, 1, &[9]);
    let hex: String = report.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "090101010101010101108080808080401901000000000000002201".to_owned() + "09");
}

/// A definition with a change, by path.
fn changed(name: &str, path: &str, value: &Json) -> Json {
    let mut definition = json_of(&format!("definitions/{name}.json"));
    let at = path.split('.').fold(&mut definition, |at, key| &mut at[key]);
    *at = value.clone();
    definition
}

#[test]
fn a_definition_that_does_not_fit_together_is_refused() {
    for name in names_in("definitions") {
        assert_eq!(definition_of(&name).version, 1);
    }
    let table = json_of("refused/definitions.json");
    assert!(list(&table).len() > 60);
    let spending = json!([
        ["l_grr", "spending", [null, []]],
        ["l_grr", "spending.report", [0, -1, "1", null]],
        ["l_grr", "spending.parts", [null, [1], [{ "epsilon": 1.0, "inputs": 1 }, { "epsilon": 1.0, "inputs": 1 }]]],
        ["l_grr", "spending.parts", [[{ "epsilon": 0, "inputs": 1 }], [{ "epsilon": 1, "inputs": 1.5 }]]],
    ]);
    let few = json!([
        ["l_grr", "participation", [{ "reports": 1, "of": 30 }]],
        ["l_grr", "slices", [{}, [{ "name": "a" }], [{ "labels": ["x"] }], [{ "name": "a", "labels": ["x", "x"] }]]],
        ["l_grr", "slices", [[{ "name": "a", "labels": ["x"] }, { "name": "a", "labels": ["y"] }]]],
    ]);
    for row in [&table, &spending, &few].into_iter().flat_map(list) {
        let (name, path) = (text(&row[0]), text(&row[1]));
        for value in list(&row[2]) {
            let error = parsed(&changed(name, path, value)).expect_err(&format!("{path} of {name} is {value}"));
            assert_eq!(error.code(), "E-DEVICE-DEFINITION");
        }
    }
    for (reports, of) in [(0, 30), (31, 30), (1, 0), (1, (1 << 16) + 1)] {
        let mut asked = changed("l_grr", "format", &json!("ldpbeam device definition 2"));
        asked["participation"] = json!({ "reports": reports, "of": of });
        assert_eq!(parsed(&asked).unwrap_err().code(), "E-DEVICE-DEFINITION");
    }
    for wrong in ["", "null", "1", "\"x\"", "[]", "{}", "{\"format\": "] {
        assert_eq!(Definition::parse(wrong).unwrap_err().code(), "E-DEVICE-DEFINITION");
    }
}
