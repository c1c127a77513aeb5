"""What stands behind "zoo:", and what is said where there is nothing of that name."""

from __future__ import annotations

import pytest

from penstock.errors import UsageError
from penstock.zoo.mobilenets import MobileNetV1
from penstock.zoo.plain_networks import LeNet5
from penstock.zoo.registry import open_zoo, zoo_networks

NAMES = [
    *("densenet121", "googlenet", "inception_v3", "lenet5", "mobilenet_v1"),
    *("mobilenet_v2", "nasnet_mobile", "randwire", "resnet50", "resnet8"),
    *("squeezenet", "tc_resnet8", "vgg16"),
]


def problem(text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        open_zoo(text)
    return caught.value


def test_every_network_says_what_it_is_where_it_is_from_and_what_can_be_set() -> None:
    exhibits = {exhibit.name: exhibit for exhibit in zoo_networks()}
    assert list(exhibits) == NAMES
    for exhibit in exhibits.values():
        assert exhibit.summary.endswith(".")
        assert exhibit.source[-4:].isdigit() or "arXiv:" in exhibit.source
        assert exhibit.options[-1].name == "seed"
    shown = [(o.name, o.default, o.allowed) for o in exhibits["mobilenet_v1"].options]
    assert shown == [
        ("alpha", 1.0, "a number from 0.05 to 2.0"),
        ("resolution", 224, "an integer from 32 to 512"),
        ("classes", 1000, "an integer from 2 to 100000"),
        ("input_channels", 3, "3 or 1"),
        ("seed", 0, "an integer from 0 to 4294967295"),
    ]
    assert exhibits["lenet5"].options[0].allowed == "28 or 32"


def test_options_are_set_in_any_order_and_the_prefix_may_be_left_out() -> None:
    first = open_zoo("zoo:mobilenet_v1:alpha=0.25,resolution=32,classes=3")
    assert open_zoo("mobilenet_v1: classes=3 , alpha=.25, resolution=32") == first
    assert MobileNetV1(alpha=0.25, resolution=32, classes=3).graph() == first
    assert first.name == "mobilenet_v1"


def test_the_prefix_alone_lists_the_names() -> None:
    found = problem("zoo:")
    assert found.code == "usage-111"
    assert found.what == "no network of the zoo is named"
    assert found.help == "one of: " + ", ".join("zoo:" + name for name in NAMES)


def test_an_unknown_network_is_answered_with_a_near_one_and_the_list() -> None:
    assert str(problem("zoo:mobilenetv1:alpha=1")) == (
        'error[usage-111]: the zoo has no network "mobilenetv1"\n'
        "  --> zoo:mobilenetv1:alpha=1\n"
        "  help: did you mean zoo:mobilenet_v1? one of: zoo:densenet121, "
        "zoo:googlenet, zoo:inception_v3, zoo:lenet5, zoo:mobilenet_v1, "
        "zoo:mobilenet_v2, zoo:nasnet_mobile, zoo:randwire, zoo:resnet50, "
        "zoo:resnet8, zoo:squeezenet, zoo:tc_resnet8, zoo:vgg16"
    )


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ("size=3", 'there is no option "size"'),
        ("classes", '"classes" is not of the form option=value'),
        ("classes=3,classes=4", 'option "classes" is set twice'),
    ],
)
def test_a_setting_that_is_none_is_answered_with_the_options(settings: str, what: str) -> None:
    found = problem(f"zoo:vgg16:{settings}")
    assert (found.code, found.what) == ("usage-112", what)
    assert found.why == (
        "vgg16 has the options (with defaults): alpha=1.0, resolution=224, classes=1000, seed=0"
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("resnet8:classes=ten", "option classes is 'ten', must be an integer from 2 to 100000"),
        ("resnet8:classes=2.5", "option classes is '2.5', must be an integer from 2 to 100000"),
        ("resnet8:classes=1", "option classes is 1, must be an integer from 2 to 100000"),
        ("resnet8:seed=-1", "option seed is -1, must be an integer from 0 to 4294967295"),
        ("lenet5:resolution=30", "option resolution is 30, must be 28 or 32"),
        ("mobilenet_v2:alpha=nan", "option alpha is nan, must be a number from 0.05 to 2.0"),
        ("mobilenet_v2:alpha=", "option alpha is '', must be a number from 0.05 to 2.0"),
    ],
)
def test_a_value_out_of_range_is_answered_with_the_range(text: str, what: str) -> None:
    found = problem(f"zoo:{text}")
    assert (found.code, found.what) == ("usage-113", what)
    assert found.where == f"zoo:{text.partition(':')[0]}"


def test_values_are_checked_in_python_too() -> None:
    with pytest.raises(UsageError, match="option resolution is True"):
        LeNet5(resolution=True)
