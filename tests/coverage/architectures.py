"""The architectures as data: tiny configurations, random weights, one output that varies with the input."""

from __future__ import annotations

from dataclasses import dataclass, replace

SMALL = "hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64"
TEXT = f"vocab_size=99, max_position_embeddings=64, {SMALL}"
PATCHES = f"image_size=32, patch_size=8, {SMALL}"


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """`make`: the module, in Python; `inputs` and `output` as in a spec; `field`: the attribute of what forward() returns.

    `source`: classes that `make` names; `range`: the exclusive end of integer inputs.
    `gain`: of each layer's weights, smaller where the sums of many layers would leave nothing but rounding.
    """

    make: str
    inputs: dict[str, str]
    output: str
    field: str = "last_hidden_state"
    source: str = ""
    range: int = 99
    gain: float = 1.6


def _text(name: str, settings: str = TEXT, hidden: int = 32, mask: bool = True) -> Architecture:
    inputs = {"input_ids": "int64[batch, 9]"} | ({"attention_mask": "int64[batch, 9] 1..1"} if mask else {})
    return Architecture(make=_of(name, settings), inputs=inputs, output=f"float32[batch, 9, {hidden}]")


def _image(
    name: str, settings: str, output: str, field: str = "last_hidden_state", side: int = 32, suffix: str = "Model"
) -> Architecture:
    inputs = {"pixel_values": f"float32[batch, 3, {side}, {side}]"}
    return Architecture(make=_of(name, settings, suffix), inputs=inputs, output=f"float32[{output}]", field=field)


def _of(name: str, settings: str, suffix: str = "Model") -> str:
    return f"transformers.{name}{suffix}(transformers.{name}Config({settings}))"


def _sound(name: str, settings: str, inputs: dict[str, str], output: str, suffix: str = "Model") -> Architecture:
    return Architecture(make=_of(name, settings, suffix), inputs=inputs, output=f"float32[{output}]")


CLASSES = "num_labels=5"
LABELS = "batch, 5"
CLASSIFIER = "ForImageClassification"
RECURRENT = """
class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layer = kind(8, 16, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.layer(x)[0]
"""
BICUBIC = """
class Bicubic(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x):
        x = nn.functional.interpolate(x, size=(20, 20), mode="bicubic", antialias=True)
        return self.conv(x).relu().mean((2, 3))
"""
CONTROL_FLOW = """
class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        y = self.layer(x)
        return y * 2 if y.sum() > 0 else y - 1
"""
WAVE = {"input_values": "float32[batch, 400]"}
WAV2VEC2 = (
    f"{SMALL}, conv_dim=(32, 32), conv_stride=(4, 4), conv_kernel=(8, 4), num_feat_extract_layers=2, "
    "num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4, vocab_size=20, do_stable_layer_norm=True, feat_extract_norm='layer'"
)
DECODER = f"vocab_size=99, max_position_embeddings=64, {SMALL}, use_cache=False"

ARCHITECTURES: dict[str, Architecture] = {
    "bert": _text("Bert"),
    "distilbert": _text("DistilBert", "vocab_size=99, max_position_embeddings=64, dim=32, n_layers=2, n_heads=4, hidden_dim=64"),
    "roberta": _text("Roberta", f"{TEXT}, pad_token_id=0"),
    "albert": _text("Albert", f"{TEXT}, embedding_size=16"),
    "electra": _text("Electra", f"{TEXT}, embedding_size=16"),
    "mobilebert": _text("MobileBert", f"{TEXT}, embedding_size=32, true_hidden_size=16, intra_bottleneck_size=16, num_feedforward_networks=2"),
    "squeezebert": _text("SqueezeBert", f"{TEXT}, embedding_size=32, q_groups=2, k_groups=2, v_groups=2, post_attention_groups=1, intermediate_groups=2, output_groups=2"),
    "deberta-v2": _text("DebertaV2", f"{TEXT}, relative_attention=True, position_buckets=8, pos_att_type=['p2c', 'c2p'], norm_rel_ebd='layer_norm', share_att_key=True, position_biased_input=False"),
    "mpnet": _text("MPNet"),
    "vit": _image("ViT", PATCHES, "batch, 17, 32"),
    "deit": _image("DeiT", PATCHES, "batch, 18, 32"),
    "swin": _image("Swin", f"image_size=32, patch_size=2, embed_dim=16, depths=[2, 1], num_heads=[2, 4], window_size=4, {CLASSES}", LABELS, "logits", suffix=CLASSIFIER),
    "convnext": _image("ConvNext", f"hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1], {CLASSES}", LABELS, "logits", suffix=CLASSIFIER),
    "convnextv2": _image("ConvNextV2", f"hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1], {CLASSES}", LABELS, "logits", suffix=CLASSIFIER),
    "resnet": _image("ResNet", f"embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1], {CLASSES}", LABELS, "logits", suffix=CLASSIFIER),
    "mobilenet_v1": _image("MobileNetV1", f"depth_multiplier=0.25, {CLASSES}", LABELS, "logits", suffix=CLASSIFIER),
    "mobilenet_v2": _image("MobileNetV2", f"depth_multiplier=0.25, {CLASSES}", LABELS, "logits", suffix=CLASSIFIER),
    "efficientnet": _image("EfficientNet", f"width_coefficient=0.25, depth_coefficient=0.3, hidden_dim=320, image_size=32, {CLASSES}", LABELS, "logits", suffix=CLASSIFIER),
    "mobilevit": _image("MobileViT", f"image_size=32, patch_size=2, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32], num_attention_heads=4, mlp_ratio=2.0, {CLASSES}", LABELS, "logits", suffix=CLASSIFIER),
    "segformer": _image("Segformer", f"hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16, {CLASSES}", LABELS, "logits", suffix=CLASSIFIER),
    "dinov2": _image("Dinov2", f"{PATCHES}", "batch, 17, 32"),
    "beit": _image("Beit", f"{PATCHES}, use_relative_position_bias=True", "batch, 17, 32"),
    "poolformer": _image("PoolFormer", f"hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], {CLASSES}", LABELS, "logits", suffix=CLASSIFIER),
    "levit": _image("Levit", f"image_size=64, hidden_sizes=[16, 24, 32], num_attention_heads=[2, 2, 2], depths=[1, 1, 1], key_dim=[8, 8, 8], {CLASSES}", LABELS, "logits", side=64, suffix=CLASSIFIER),
    "cvt": _image("Cvt", f"embed_dim=[8, 16, 32], num_heads=[1, 2, 4], depth=[1, 2, 3], {CLASSES}", LABELS, "logits", suffix=CLASSIFIER),
    "pvt": _image("Pvt", f"image_size=32, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], {CLASSES}", LABELS, "logits", suffix=CLASSIFIER),
    "regnet": _image("RegNet", f"embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], groups_width=4, {CLASSES}", LABELS, "logits", suffix=CLASSIFIER),
    "focalnet": _image("FocalNet", f"image_size=32, patch_size=2, embed_dim=16, hidden_sizes=[16, 32], depths=[1, 1], focal_levels=[2, 2], focal_windows=[3, 3], {CLASSES}", LABELS, "logits", suffix=CLASSIFIER),
    "gpt2": _text("GPT2", "vocab_size=99, n_positions=64, n_embd=32, n_layer=2, n_head=4, use_cache=False"),
    "llama": _text("Llama", DECODER),
    "qwen2": _text("Qwen2", f"{DECODER}, num_key_value_heads=2"),
    "opt": _text("OPT", "vocab_size=99, max_position_embeddings=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64, word_embed_proj_dim=32, use_cache=False"),
    "t5enc": Architecture(make="transformers.T5EncoderModel(transformers.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, is_encoder_decoder=False, use_cache=False))",
                          inputs={"input_ids": "int64[batch, 9]", "attention_mask": "int64[batch, 9] 1..1"}, output="float32[batch, 9, 32]"),
    "clip_text": _text("CLIPText", f"{TEXT}, eos_token_id=2"),
    "clip_vision": _image("CLIPVision", PATCHES, "batch, 17, 32"),
    "wav2vec2": _sound("Wav2Vec2", WAV2VEC2, WAVE, "batch, 24, 32"),
    "hubert": _sound("Hubert", WAV2VEC2, WAVE, "batch, 24, 32"),
    "whisper_enc": Architecture(make="transformers.models.whisper.modeling_whisper.WhisperEncoder(transformers.WhisperConfig(d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64, num_mel_bins=16, max_source_positions=20))",
                                inputs={"input_features": "float32[batch, 16, 40]"}, output="float32[batch, 20, 32]"),
    "ast": Architecture(make=f"transformers.ASTModel(transformers.ASTConfig({SMALL}, patch_size=8, num_mel_bins=16, max_length=32, frequency_stride=8, time_stride=8))",
                        inputs={"input_values": "float32[batch, 32, 16]"}, output="float32[batch, 10, 32]"),
    "detr": _image("Detr", "use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], out_features=['stage4']), d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, num_queries=6, num_labels=5", "batch, 6, 6", "logits", side=64, suffix="ForObjectDetection"),
    "yolos": _image("Yolos", f"image_size=[32, 32], patch_size=8, {SMALL}, num_detection_tokens=5, {CLASSES}", "batch, 5, 6", "logits", suffix="ForObjectDetection"),
    "dpt": _image("DPT", "image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16, head_in_index=-1, is_hybrid=False", "batch, 64, 64", "predicted_depth", suffix="ForDepthEstimation"),
    "mamba": _text("Mamba", "vocab_size=99, hidden_size=32, state_size=8, num_hidden_layers=2, expand=2, conv_kernel=4, use_cache=False", mask=False),
    "lstm": Architecture(make="Recurrent(nn.LSTM)", inputs={"x": "float32[batch, 12, 8]"}, output="float32[batch, 12, 32]", field="", source=RECURRENT),
    "gru": Architecture(make="Recurrent(nn.GRU)", inputs={"x": "float32[batch, 12, 8]"}, output="float32[batch, 12, 32]", field="", source=RECURRENT),
    "bicubic": Architecture(make="Bicubic()", inputs={"x": "float32[batch, 3, 32, 32]"}, output="float32[batch, 8]", field="", source=BICUBIC),
}  # fmt: skip
for _name, _gain in (("levit", 0.95), ("mobilevit", 1.3), ("mobilebert", 0.8), ("dpt", 1.2)):
    ARCHITECTURES[_name] = replace(ARCHITECTURES[_name], gain=_gain)
# What must be refused, with the operator or the statement and the user's line.
REFUSED: dict[str, Architecture] = {
    "ctrlflow": Architecture(
        make="Branch()", inputs={"x": "float32[batch, 8]"}, output="float32[batch, 4]", field="", source=CONTROL_FLOW
    ),
}
